import ReelCore

/// The page of a mount: one document that asks for nothing but `/api/v1/…` of its own server.
enum Page {
    /// The document, whose style and script alone are believed, by a word that is another one each time (CSP, level 3).
    static func answer() -> ServedAnswer {
        let nonce = (0..<2).map { _ in String(UInt64.random(in: 1 << 60 ... .max), radix: 36) }.joined()
        let policy =
            "default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; connect-src 'self'; "
            + "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        let headers = [
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
        ]
        return ServedAnswer(200, headers, .text(Array(parts.joined(separator: Array(nonce.utf8)))))
    }

    /// The document, cut where the word belongs.
    private static let parts: [ArraySlice<UInt8>] = {
        let scripts = [
            PackageResources.format_js, PackageResources.calls_js, PackageResources.playing_js,
            PackageResources.line_js, PackageResources.folder_js, PackageResources.page_js,
        ]
        let page = Array(
            PackageResources.page_html.split(separator: Array("{style}".utf8)).joined(
                separator: PackageResources.page_css))
        return Array(page.split(separator: Array("{script}".utf8)).joined(separator: scripts.joined()))
            .split(separator: Array("{nonce}".utf8))
    }()
}
