import ReelCore

/// What a file is known by in the cache, whatever the place that its bytes come from (`--cache-key`).
///
/// A key is one part of a version: length and validator are the others, so that two files under one key never share
/// bytes. A key that is no URL begins with `/` (a path) or `name:`.
package enum CacheKey: String, CaseIterable, Sendable {
    /// The URL; the parameters of a signature never count.
    case url
    /// The path, whatever the host and the query.
    case path
    /// The last part of the path, and the length.
    case name

    /// The key of a file's bytes.
    /// - Parameters:
    ///   - length: nil if it is not known.
    ///   - hasValidator: whether the file has an entity tag or a date: of two URLs that differ in more than the mode
    ///     says, only these prove that they are one file.
    ///   - acceptsRanges: of one that does not, the length may be known only after its bytes.
    package func key(
        of url: ResourceURL, length: Int64?, hasValidator: Bool = true, acceptsRanges: Bool = true
    ) -> String {
        switch self {
        case .url: return hasValidator ? QuerySignature.unsigned(url)?.text ?? url.text : url.text
        case .path: return url.path
        case .name:
            let name = url.path.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).last ?? []
            guard let length, acceptsRanges, !name.isEmpty else { return url.text }
            return "name:\(length):\(String(decoding: Array(name), as: UTF8.self))"
        }
    }

    /// The key of a version's bytes.
    package func key(of url: ResourceURL, _ information: ContentInformation) -> String {
        let validator = information.validator
        return key(
            of: url, length: information.length,
            hasValidator: validator.entityTag != nil || validator.lastModified != nil,
            acceptsRanges: information.acceptsRanges)
    }

    /// Whether the key depends on more than the URL.
    package func dependsOnFacts(_ url: ResourceURL) -> Bool {
        switch self {
        case .url: QuerySignature.unsigned(url) != nil
        case .path: false
        case .name: true
        }
    }

    /// What a source's directory in the cache is named after. A token alone may say whose list it is, and so counts
    /// here; the signature of a well-known service does not.
    package func directory(of source: ResourceURL) -> String {
        switch self {
        case .url: QuerySignature.split(source)?.url.text ?? source.text
        case .path: "path:" + source.path
        case .name: "name:" + (source.path.split(separator: "/").last ?? "")
        }
    }

    /// The beginning of the keys of all that lies below a folder; nil if keys name no folder.
    package func prefix(of folder: ResourceURL) -> String? {
        switch self {
        case .url: folder.text
        case .path: folder.path
        case .name: nil
        }
    }

    /// The name in a key that names no folder.
    package static func name(inKey key: String) -> String? {
        guard key.hasPrefix("name:"), let colon = key.dropFirst(5).firstIndex(of: ":") else { return nil }
        return String(decoding: percentDecoded(String(key[key.index(after: colon)...])), as: UTF8.self)
    }
}
