import ReelCore

/// The keys of one source in a cache of several: each begins with the scope's name and a space, which no URL, no path
/// and no setting does. A cache of one source has the scope without a name, whose keys stand as they are.
struct KeyScope: Sendable {
    private static let digits = 32
    /// Has 32 hexadecimal digits, nil for the whole cache.
    let name: String?
    private let prefix: String

    /// - Parameter name: as above.
    init(name: String? = nil) {
        self.name = name
        prefix = name.map { $0 + " " } ?? ""
    }

    /// The key as the index has it.
    func inside(_ key: String) -> String { prefix.isEmpty ? key : prefix + key }

    func inside(_ version: Version) -> Version {
        Version(key: inside(version.key), validator: version.validator, length: version.length)
    }

    /// The key as the source has it, nil for a key of another scope.
    func outside(_ key: String) -> String? {
        if prefix.isEmpty { return key }
        guard key.utf8.starts(with: prefix.utf8) else { return nil }
        return String(key.utf8.dropFirst(prefix.utf8.count)) ?? ""
    }

    func outside(_ version: Version) -> Version? {
        outside(version.key).map { Version(key: $0, validator: version.validator, length: version.length) }
    }

    /// The scope of a key of the index, nil if it has none; and the key in it.
    static func split(_ key: String) -> (scope: String?, key: String) {
        let bytes = key.utf8
        guard let end = bytes.index(bytes.startIndex, offsetBy: digits, limitedBy: bytes.endIndex),
            end < bytes.endIndex, bytes[end] == UInt8(ascii: " "),
            bytes[..<end].allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { return (nil, key) }
        return (String(key[..<end]), String(key[bytes.index(after: end)...]))
    }

    static func split(_ version: Version) -> Version {
        Version(key: split(version.key).key, validator: version.validator, length: version.length)
    }
}

/// Splits a key that `Store.objects` of a whole cache returns into its scope, nil if it has none, and the key in it.
package func splitScope(ofKey key: String) -> (scope: String?, key: String) { KeyScope.split(key) }
