import ReelCore

/// One challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1), read with distrust.
struct LoginChallenge: Hashable {
    /// In lower case.
    var scheme: String
    /// Names in lower case; of two with one name the first.
    var parameters: [String: String] = [:]

    /// Bytes of one value: those of real servers have a hundred.
    static let valueLimit = 1024

    /// All challenges of an answer, in order. What is no challenge is left out.
    static func all(of head: ResponseHead) -> [LoginChallenge] {
        head.headers.lazy.filter { $0.name == "www-authenticate" }.flatMap { parse($0.value) }
    }

    /// - Parameter text: several challenges may stand in one header; a comma is between them as between parameters.
    static func parse(_ text: String) -> [LoginChallenge] {
        var challenges: [LoginChallenge] = []
        var cursor = ByteCursor(Array(text.utf8)[...])
        while true {
            cursor.take { isBlank($0) || $0 == UInt8(ascii: ",") }
            let word = cursor.take(while: isTokenByte)
            if word.isEmpty {
                // Neither a scheme nor a parameter, as the padding of `token68`.
                guard !cursor.take(count: 1).isEmpty else { return challenges }
                continue
            }
            let blanks = cursor.take(while: isBlank)
            guard cursor.peek() == UInt8(ascii: "="), blanks.isEmpty || !challenges.isEmpty else {
                challenges.append(LoginChallenge(scheme: asciiLowercased(word)))
                continue
            }
            cursor.take(count: 1)
            cursor.take(while: isBlank)
            let value =
                cursor.take(UInt8(ascii: "\""))
                ? quotedRest(&cursor) : Array(cursor.take { !isBlank($0) && $0 != UInt8(ascii: ",") })
            guard let last = challenges.indices.last, value.count <= valueLimit else { continue }
            let name = asciiLowercased(word)
            if challenges[last].parameters[name] == nil {
                challenges[last].parameters[name] = String(decoding: value, as: UTF8.self)
            }
        }
    }
}
