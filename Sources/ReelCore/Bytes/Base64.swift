private let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

/// Bytes in base64 (RFC 4648, section 4), with padding.
package func base64(_ bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = bytes[start..<min(start + 3, bytes.count)]
        let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
        for place in 0..<4 {
            let isPadding = place > group.count
            result.append(isPadding ? UInt8(ascii: "=") : alphabet[Int(bits >> UInt32(18 - 6 * place) & 63)])
        }
    }
    return result
}

/// The bytes of a text in base64, whose padding may be missing; nil where it is no such text.
package func base64Decoded(_ text: [UInt8]) -> [UInt8]? {
    let letters = text.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()
    var result: [UInt8] = []
    var (bits, count): (UInt32, UInt32) = (0, 0)
    for letter in letters {
        guard let value = alphabet.firstIndex(of: letter) else { return nil }
        bits = bits << 6 | UInt32(value)
        count += 6
        guard count >= 8 else { continue }
        count -= 8
        result.append(UInt8(truncatingIfNeeded: bits >> count))
    }
    return text.count - letters.count <= 2 ? result : nil
}
