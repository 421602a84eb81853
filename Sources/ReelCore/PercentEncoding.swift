/// Percent-encoding undone, once. A `%` that no two hex digits follow stays as it is.
package func percentDecoded(_ text: String) -> [UInt8] {
    var result: [UInt8] = []
    let bytes = Array(text.utf8)
    result.reserveCapacity(bytes.count)
    var index = 0
    while index < bytes.count {
        if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = hexDigit(bytes[index + 1]),
            let low = hexDigit(bytes[index + 2])
        {
            result.append(high << 4 | low)
            index += 3
        } else {
            result.append(bytes[index])
            index += 1
        }
    }
    return result
}

/// Percent-encodes every byte that may not stand in one segment of a path (RFC 3986, `pchar`).
package func percentEncodedSegment(_ bytes: some Sequence<UInt8>) -> String {
    var result = ""
    for byte in bytes {
        if isPathByte(byte) && byte != UInt8(ascii: "/") && byte != UInt8(ascii: "%") {
            result.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
            result += escape(byte)
        }
    }
    return result
}

func percentDecodedText(_ text: String) -> String { String(decoding: percentDecoded(text), as: UTF8.self) }

/// The value of a hexadecimal digit.
package func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x37
    case 0x61...0x66: byte - 0x57
    default: nil
    }
}

private func escape(_ byte: UInt8) -> String {
    let digits = Array("0123456789ABCDEF")
    return "%" + String(digits[Int(byte >> 4)]) + String(digits[Int(byte & 15)])
}

func isUnreservedOrSubDelimiter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "-._~!$&'()*+,;=".utf8.contains(byte)
    }
}

func isPathByte(_ byte: UInt8) -> Bool { isUnreservedOrSubDelimiter(byte) || "/:@%".utf8.contains(byte) }
func isQueryByte(_ byte: UInt8) -> Bool { isPathByte(byte) || byte == UInt8(ascii: "?") }

/// Encodes what may not stand there, and a `%` that starts no escape; escapes are kept as they are.
func encoded(_ text: String, keeping isKept: (UInt8) -> Bool) -> String {
    let bytes = Array(text.utf8)
    if bytes.allSatisfy({ isKept($0) && $0 != UInt8(ascii: "%") }) { return text }
    var result = ""
    for (index, byte) in bytes.enumerated() {
        let isEscape =
            byte == UInt8(ascii: "%")
            && index + 2 < bytes.count && hexDigit(bytes[index + 1]) != nil && hexDigit(bytes[index + 2]) != nil
        if isKept(byte) && (byte != UInt8(ascii: "%") || isEscape) {
            result.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
            result += escape(byte)
        }
    }
    return result
}
