import ReelCore
import ReelThreads

/// The parameters that sign a URL in its own query. They say who may read the resource and until when, and nothing of
/// what it is: with each new signature the same resource has another URL.
package struct QuerySignature: Hashable, Sendable {
    /// The whole query, as it is sent, nil if there is none.
    let query: String?
    /// Seconds since 1970, nil if it does not say.
    let expires: Int64?
    /// User and password that a list has in the URL, nil if none. They are remembered as little as a signature.
    var login: ResourceURL.Credentials?

    /// The parameters of a service's signature, in lower case.
    private struct Scheme {
        /// The parameters that all URLs that it signs have.
        var marks: Set<String>
        var others: Set<String> = []
        /// The prefix of all its parameters, and those with it that say what the resource is.
        var prefix: String?
        var exceptions: Set<String> = []
    }

    private static let schemes = [
        // S3 and Google, version 4.
        Scheme(marks: ["x-amz-signature"], prefix: "x-amz-"),
        Scheme(marks: ["x-goog-signature"], prefix: "x-goog-"),
        // S3 and Google, version 2; CloudFront.
        Scheme(marks: ["signature", "awsaccesskeyid"], others: ["expires", "x-amz-security-token"]),
        Scheme(marks: ["signature", "googleaccessid"], others: ["expires"]),
        Scheme(marks: ["signature", "key-pair-id"], others: ["expires", "policy", "hash-algorithm"]),
        // Alibaba, version 4; 1.
        Scheme(marks: ["x-oss-signature"], prefix: "x-oss-", exceptions: ["x-oss-process"]),
        Scheme(marks: ["signature", "ossaccesskeyid"], others: ["expires", "security-token"]),
        // Tencent.
        Scheme(
            marks: ["q-signature", "q-ak"],
            others: [
                "q-sign-algorithm", "q-sign-time", "q-key-time", "q-header-list", "q-url-param-list",
                "x-cos-security-token",
            ]),
        // Azure.
        Scheme(
            marks: ["sig", "sv", "se"],
            others: [
                "ss", "srt", "sp", "st", "spr", "sr", "si", "sip", "sdd", "skoid", "sktid", "skt", "ske", "sks", "skv",
            ]),
        // Akamai.
        Scheme(marks: ["hdnts"]), Scheme(marks: ["hdnea"]), Scheme(marks: ["hdntl"]), Scheme(marks: ["__token__"]),
    ]

    /// Names that servers without a scheme of their own give to what signs a link, in lower case.
    private static let usual: Set = [
        "token", "access_token", "auth_token", "expires", "expire", "expiry", "exp", "sig", "signature", "sign", "hmac",
        "md5",
    ]

    /// The URL without the parameters of a well-known signature, and of those with the usual names, nil if it has none.
    /// A parameter with a usual name may say more than who may read: two such URLs are one file only if validator and
    /// length agree.
    static func unsigned(_ url: ResourceURL) -> ResourceURL? {
        if url.query == nil { return nil }
        let bare = split(url)?.url ?? url
        let fields = (bare.query ?? "").split(separator: "&")
        let kept = fields.filter { !usual.contains(asciiLowercased($0.prefix { $0 != "=" })) }
        if kept.count == fields.count { return bare == url ? nil : bare }
        return ResourceURL(url.origin + url.path + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&")))?
            .with(credentials: url.credentials)
    }

    /// User and password in a URL of a list, nil if there are none, or if they are the source's own: with those the
    /// cache gives the URL back.
    static func login(in url: ResourceURL, of source: ResourceURL?) -> ResourceURL.Credentials? {
        let isOwn = source.map { $0.isSameOrigin(as: url) && $0.credentials == url.credentials } ?? false
        return isOwn ? nil : url.credentials
    }

    /// Separates a URL of a list from all that memory alone holds of it: its signature, and its login.
    /// - Parameter source: where the list is, nil if it has no URL.
    static func apart(_ url: ResourceURL, of source: ResourceURL?) -> (url: ResourceURL, signature: QuerySignature?) {
        let found = split(url)
        guard let login = login(in: url, of: source) else { return (found?.url ?? url, found?.signature) }
        var signature = found?.signature ?? QuerySignature(query: url.query, expires: nil)
        signature.login = login
        return (found?.url ?? url, signature)
    }

    /// Separates a URL from its signature.
    /// - Returns: the URL without the parameters of a well-known signature, and the signature, nil if it has none.
    static func split(_ url: ResourceURL) -> (url: ResourceURL, signature: QuerySignature)? {
        guard let query = url.query else { return nil }
        var values: [String: Substring] = [:]
        let fields = query.split(separator: "&").map { field in
            let name = field.prefix { $0 != "=" }
            let key = asciiLowercased(name)
            values[key] = field[name.endIndex...].dropFirst()
            return (name: key, field: field)
        }
        guard let scheme = schemes.first(where: { $0.marks.allSatisfy { values[$0] != nil } }) else { return nil }
        let kept = fields.filter { name, _ in
            let isOfPrefix =
                scheme.prefix.map { name.hasPrefix($0) && !scheme.exceptions.contains(name) } ?? false
            return !isOfPrefix && !scheme.marks.contains(name) && !scheme.others.contains(name)
        }.map(\.field)
        let text = url.origin + url.path + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&"))
        return ResourceURL(text).map { bare in
            (bare.with(credentials: url.credentials), QuerySignature(query: query, expires: end(values, scheme)))
        }
    }

    private static func end(_ values: [String: Substring], _ scheme: Scheme) -> Int64? {
        if let prefix = scheme.prefix {
            guard let begin = values[prefix + "date"].flatMap({ moment($0) }),
                let count = values[prefix + "expires"].flatMap({ decimal(String($0)) }), count < 1 << 32
            else { return nil }
            return begin + count
        }
        if let mark = scheme.marks.first, scheme.marks.count == 1, let text = values[mark] {
            let field = text.split(separator: "~").first { $0.hasPrefix("exp=") }
            return field.flatMap { decimal(String($0.dropFirst(4))) }
        }
        if let text = values["q-sign-time"] {
            return percentDecoded(String(text)).split(separator: UInt8(ascii: ";")).last.flatMap { decimal($0) }
        }
        if let text = values["se"] {
            var cursor = ByteCursor(percentDecoded(String(text))[...])
            return cursor.listingDate()
        }
        return values["expires"].flatMap { decimal(String($0)) }
    }

    /// `20241122T171500Z`.
    private static func moment(_ text: Substring) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 16, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "Z") else { return nil }
        let starts = [(0, 4), (4, 2), (6, 2), (9, 2), (11, 2), (13, 2)]
        let numbers = starts.compactMap { start, count in decimal(bytes[start..<start + count]) }
        guard numbers.count == 6, let day = secondsSince1970(year: numbers[0], month: numbers[1], day: numbers[2])
        else {
            return nil
        }
        return day + numbers[3] * 3600 + numbers[4] * 60 + numbers[5]
    }
}

extension ResourceURL {
    /// Without the parameters of a well-known signature, and without those that usually sign a link; itself where it
    /// has none.
    package var unsigned: ResourceURL { QuerySignature.unsigned(self) ?? self }

    /// The same place of another tree (`moved`), without the signature: that is a secret of this one's.
    package func movedUnsigned(from base: ResourceURL, to other: ResourceURL) -> ResourceURL? {
        moved(from: base, to: other)?.unsigned
    }
}

/// The signatures and logins that a list gave its entries last, by the URLs without them. Only memory holds them, never
/// the cache.
final class QuerySignatures: Sendable {
    private struct Table {
        var signatures: [String: QuerySignature] = [:]
        /// What the URLs and the signatures take.
        var bytes = 0
        /// A list was read.
        var isRead = false

        mutating func add(_ news: [String: QuerySignature]) {
            isRead = true
            for (url, signature) in news {
                let old = signatures.updateValue(signature, forKey: url)
                bytes -= old?.query?.utf8.count ?? 0
                bytes += (signature.query?.utf8.count ?? 0) + (old == nil ? url.utf8.count : 0)
            }
        }
    }

    private let table = Lock(Table())

    /// Whether any entry is asked for with one; nil where no list was read yet.
    var isSigned: Bool? { table.withLock { $0.isRead ? !$0.signatures.isEmpty : nil } }

    /// The most entries that a list may have.
    private static let most = Playlist.mostEntries
    /// A list is a document of 64 MiB at most, but a tree has as many lists as it likes.
    private let mostBytes: Int

    init(mostBytes: Int = 256 << 20) { self.mostBytes = mostBytes }

    func replace(with news: [String: QuerySignature]) {
        var table = Table()
        table.add(news)
        self.table.withLock { [table] in $0 = table }
    }

    /// Adds the signatures of one of several lists; where they become too many, its alone are kept.
    func add(_ news: [String: QuerySignature]) {
        table.withLock { table in
            table.add(news)
            if news.isEmpty { return }
            if table.signatures.count <= Self.most, table.bytes <= mostBytes { return }
            table = Table()
            table.add(news)
        }
    }

    /// The request with its URL as the list has it.
    func sign(_ request: OriginRequest) -> OriginRequest {
        guard let signature = table.withLock({ $0.signatures[request.url.text] }),
            let url = ResourceURL(
                request.url.origin + request.url.path + (signature.query.map { "?" + $0 } ?? ""))
        else { return request }
        var request = request
        request.url = url.with(credentials: signature.login ?? request.url.credentials)
        request.expires = signature.expires
        return request
    }

    /// The URL with the login that a list gave it last.
    func loggedIn(_ url: ResourceURL) -> ResourceURL {
        table.withLock { $0.signatures[url.text]?.login }.map { url.with(credentials: $0) } ?? url
    }
}
