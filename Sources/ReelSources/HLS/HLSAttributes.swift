import ReelCore

/// The attributes of an HLS tag, `NAME=value,NAME="value, with commas"` (RFC 8216, section 4.2).
struct HLSAttributes {
    /// More than any tag has.
    private static let most = 64

    private var values: [String: String] = [:]

    /// Takes what is well formed up to the first mistake. Of a name given twice the first value stands.
    init(_ text: ArraySlice<UInt8>) {
        var cursor = ByteCursor(text)
        while !cursor.isAtEnd, values.count < Self.most {
            let name = trimmedBytes(cursor.take { $0 != UInt8(ascii: "=") })
            guard !name.isEmpty, cursor.take(UInt8(ascii: "=")) else { return }
            cursor.take(while: isBlank)
            let value: ArraySlice<UInt8>
            if cursor.take(UInt8(ascii: "\"")) {
                value = cursor.take { $0 != UInt8(ascii: "\"") }
                guard cursor.take(UInt8(ascii: "\"")) else { return }
            } else {
                value = trimmedBytes(cursor.peekValue)
            }
            cursor.take { $0 != UInt8(ascii: ",") }
            cursor.take(UInt8(ascii: ","))
            let key = listText(name)
            if values[key] == nil { values[key] = listText(value) }
        }
    }

    subscript(name: String) -> String? { values[name] }

    /// A decimal integer; nil where it is anything else.
    func number(_ name: String) -> Int64? { values[name].flatMap { decimal($0) } }
}

extension ByteCursor {
    /// The bytes before the next comma.
    fileprivate var peekValue: ArraySlice<UInt8> { rest.prefix { $0 != UInt8(ascii: ",") } }
}

/// The variables of a playlist (EXT-X-DEFINE): `{$name}` in its URIs and texts stands for a value.
struct HLSVariables {
    /// Of them, and of the values that one text takes.
    private static let most = 100

    private var values: [String: String] = [:]

    /// - Parameter url: of the playlist: `QUERYPARAM` takes a value from its query.
    /// - Returns: false for a variable of another playlist, or one without a value.
    mutating func define(_ attributes: HLSAttributes, at url: ResourceURL?) -> Bool {
        guard values.count < Self.most else { return false }
        if let name = attributes["NAME"], let value = attributes["VALUE"] {
            values[name] = value
            return true
        }
        guard let name = attributes["QUERYPARAM"], let query = url?.query else { return false }
        for field in query.utf8.split(separator: UInt8(ascii: "&")) {
            let key = field.prefix { $0 != UInt8(ascii: "=") }
            guard key.elementsEqual(name.utf8) else { continue }
            let value = percentDecoded(Array(field[key.endIndex...].dropFirst())[...])
            values[name] = String(decoding: value, as: UTF8.self)
            return true
        }
        return false
    }

    /// The text with its variables replaced; nil where one is unknown or the result is longer than a line may be.
    func replaced(in text: String) -> String? {
        let text = Array(text.utf8)
        var (result, rest, count) = ([UInt8](), text[...], 0)
        while let start = Self.mark(in: rest) {
            guard let end = rest[start...].firstIndex(of: UInt8(ascii: "}")), count < Self.most,
                let value = values[String(decoding: rest[(start + 2)..<end], as: UTF8.self)]
            else { return nil }
            count += 1
            result += rest[..<start] + Array(value.utf8)
            rest = rest[(end + 1)...]
            if result.count > Playlist.longestLine { return nil }
        }
        return String(decoding: result + rest, as: UTF8.self)
    }

    private static func mark(in text: ArraySlice<UInt8>) -> Int? {
        text.indices.dropLast().first { text[$0] == UInt8(ascii: "{") && text[$0 + 1] == UInt8(ascii: "$") }
    }
}
