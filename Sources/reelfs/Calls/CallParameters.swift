import ReelCore
import ReelListener

/// The parameters of a call: of the query, and of a body that is a JSON object or a form. Those of the body come first.
struct CallParameters {
    /// By name.
    private(set) var values: [String: JSONValue] = [:]

    /// The nesting of a document that is worth reading: a list in an object has 2.
    private static let deepest = 16

    init() {}

    /// A body without a type is taken for JSON where it begins like an object, and for a form otherwise.
    init(_ request: ServedRequest) throws(RequestFailure) {
        addForm(request.query ?? [])
        let body = trimmedBytes((request.body ?? [])[...])
        guard !body.isEmpty else { return }
        let type = request["content-type"].map { asciiLowercased(trimmed($0.prefix { $0 != ";" })) }
        switch type {
        case "application/x-www-form-urlencoded" where body.first != UInt8(ascii: "{"): addForm(body)
        case nil where body.first != UInt8(ascii: "{"): addForm(body)
        // `curl -d '{…}'` says that it is a form.
        case "application/json", "text/json", "application/x-www-form-urlencoded", nil: try addObject(body)
        default: throw RequestFailure(status: 415, sentence: "a body is application/json or a form")
        }
    }

    private mutating func addObject(_ bytes: ArraySlice<UInt8>) throws(RequestFailure) {
        guard Self.isShallow(bytes), let object = decodeLine([String: JSONValue].self, bytes) else {
            throw RequestFailure(status: 400, sentence: "the body is not a JSON object")
        }
        values.merge(object) { _, new in new }
    }

    /// A document that is nested deeper would need a stack as deep.
    private static func isShallow(_ bytes: ArraySlice<UInt8>) -> Bool {
        var (depth, isInText, isEscaped) = (0, false, false)
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if isInText {
                isEscaped = byte == UInt8(ascii: "\\")
                isInText = byte != UInt8(ascii: "\"")
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInText = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                default: break
                }
                if depth > deepest { return false }
            }
        }
        return true
    }

    private mutating func addForm(_ bytes: ArraySlice<UInt8>) {
        for pair in bytes.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            values[formText(parts[0])] = .text(parts.count > 1 ? formText(parts[1]) : "")
        }
    }

    /// Forgets parameters by their names.
    mutating func drop(where isForgotten: (String) -> Bool) { values = values.filter { !isForgotten($0.key) } }

    /// Takes a parameter out. - Throws: where it is neither a text nor a number.
    mutating func takeText(_ name: String) throws(RequestFailure) -> String? {
        switch values.removeValue(forKey: name) {
        case nil, .null?: return nil
        case .text(let text): return text
        case .whole(let whole): return "\(whole)"
        default: throw RequestFailure(status: 400, sentence: "\(name) must be a text")
        }
    }

    /// Takes out a boolean, or a text or number that clients write for one.
    mutating func takeFlag(_ name: String) throws(RequestFailure) -> Bool? {
        switch values.removeValue(forKey: name) {
        case nil, .null?: return nil
        case .flag(let flag): return flag
        // As Go's strconv.ParseBool, for rclone's clients.
        case .text("1"), .text("t"), .text("T"), .text("true"), .text("TRUE"), .text("True"), .whole(1): return true
        case .text("0"), .text("f"), .text("F"), .text("false"), .text("FALSE"), .text("False"), .whole(0): return false
        default: throw RequestFailure(status: 400, sentence: "\(name) must be true or false")
        }
    }

    /// Takes out a number that is not negative, or its digits.
    mutating func takeNumber(_ name: String) throws(RequestFailure) -> Int64? {
        switch values.removeValue(forKey: name) {
        case nil, .null?: return nil
        case .whole(let whole) where whole >= 0: return whole
        case .text(let text):
            if !text.isEmpty, let number = decimal(text) { return number }
            fallthrough
        default: throw RequestFailure(status: 400, sentence: "\(name) must be a whole number that is not negative")
        }
    }
}

extension CallParameters {
    /// Takes out a parameter of its kind.
    mutating func take(_ parameter: CommandCalls.Parameter) throws(RequestFailure) -> JSONValue? {
        switch parameter.kind {
        case .string: try takeText(parameter.name).map { .text($0) }
        case .boolean: try takeFlag(parameter.name).map { .flag($0) }
        case .integer: try takeNumber(parameter.name).map { .whole($0) }
        }
    }
}

/// A word of a form: `+` is a space.
private func formText(_ bytes: ArraySlice<UInt8>) -> String {
    let spaced = bytes.map { $0 == UInt8(ascii: "+") ? 0x20 : $0 }
    return String(decoding: percentDecoded(spaced[...]), as: UTF8.self)
}
