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
