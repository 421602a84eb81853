/// A header to send with each request.
struct HeaderField: Hashable, Sendable {
    var name: String
    var value: String
}

extension HeaderField {
    /// `Name: value` (RFC 9110, section 5.1: a token and a colon); nil for anything else.
    init?(parsing line: String) {
        // By bytes: a mark that combines with the colon or a space is a part of the value.
        guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        name = String(decoding: line.utf8[..<colon], as: UTF8.self)
        value = String(decoding: line.utf8[colon...].dropFirst().drop { $0 == 0x20 || $0 == 0x09 }, as: UTF8.self)
        let isToken = name.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
        guard !name.isEmpty, isToken, value.utf8.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }) else {
            return nil
        }
    }
}

/// A value of `--header`.
enum HeaderOption: Hashable, Sendable {
    case field(HeaderField)
    /// `@FILE`: the daemon reads lines of `Name: value` from it.
    case file(String)

    /// The headers, in order. Files are read now; one that others can read is refused.
    static func load(_ options: [HeaderOption]) throws(Failure) -> [HeaderField] {
        var fields: [HeaderField] = []
        for option in options {
            switch option {
            case .field(let field): fields.append(field)
            case .file(let path):
                for line in numberedLines(try TrustedText(path, kind: "header file", isSecret: true).text) {
                    guard let field = HeaderField(parsing: String(line.text)) else {
                        throw .usage("header file \(shown(path)), line \(line.number): must be \"Name: value\"")
                    }
                    fields.append(field)
                }
            }
        }
        return fields
    }
}
