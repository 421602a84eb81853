// Percent-encoding (RFC 3986, section 2.1) on bytes: the names that an origin sends need not be text.

/// Undoes percent-encoding, once. A `%` that no two hex digits follow stays as it is.
package func percentDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    guard bytes.contains(UInt8(ascii: "%")) else { return Array(bytes) }
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var index = bytes.startIndex
    while index < bytes.endIndex {
        let escaped = escapedByte(bytes[index...])
        result.append(escaped ?? bytes[index])
        index += escaped == nil ? 1 : 3
    }
    return result
}

/// The same of a text.
package func percentDecoded(_ text: String) -> [UInt8] { percentDecoded(Array(text.utf8)[...]) }

/// The byte of the escape that `bytes` starts with; nil where it starts with none.
private func escapedByte(_ bytes: ArraySlice<UInt8>) -> UInt8? {
    let start = bytes.startIndex
    guard bytes.count >= 3, bytes[start] == UInt8(ascii: "%"), let high = hexDigit(bytes[start + 1]),
        let low = hexDigit(bytes[start + 2])
    else { return nil }
    return high << 4 | low
}

/// Encodes a name as one segment of a path: escapes each byte that may not stand there, `%` too.
package func encodedSegment(_ name: ArraySlice<UInt8>) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(name.count + 16)
    for byte in name {
        if isSegmentByte(byte) { result.append(byte) } else { appendEscape(of: byte, to: &result) }
    }
    return result
}

/// Escapes each byte that is not unreserved (RFC 3986, section 2.3), as the signatures of S3 want it.
package func s3Escaped(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count + 16)
    for byte in bytes {
        if isUnreserved(byte) { result.append(byte) } else { appendEscape(of: byte, to: &result) }
    }
    return result
}

/// RFC 3986, section 2.3.
package func isUnreserved(_ byte: UInt8) -> Bool {
    isLetter(byte) || isDigit(byte) || "-._~".utf8.contains(byte)
}

/// The same as text.
package func percentEncodedSegment(_ name: some Sequence<UInt8>) -> String {
    String(decoding: encodedSegment(Array(name)[...]), as: UTF8.self)
}

/// Encodes a piece of a URL: escapes each byte that is not kept, and a `%` that starts no escape; escapes stay as they
/// are.
package func encoded(_ bytes: ArraySlice<UInt8>, keeping isKept: (UInt8) -> Bool) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count + 8)
    for index in bytes.indices {
        let byte = bytes[index]
        if isKept(byte) || escapedByte(bytes[index...]) != nil {
            result.append(byte)
        } else {
            appendEscape(of: byte, to: &result)
        }
    }
    return result
}

/// Appends `%XX`.
package func appendEscape(of byte: UInt8, to result: inout [UInt8]) {
    let digit = { (value: UInt8) in value < 10 ? 0x30 + value : 0x37 + value }
    result.append(UInt8(ascii: "%"))
    result.append(digit(byte >> 4))
    result.append(digit(byte & 15))
}

/// Two lower-case digits a byte.
package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}

/// The value of a hexadecimal digit; nil for any other byte.
package func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x37
    case 0x61...0x66: byte - 0x57
    default: nil
    }
}

/// True for a letter of ASCII.
@inlinable package func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }

/// True for bytes that may stand in a segment of a URL's path (RFC 3986, `pchar`), without `%`.
package func isSegmentByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x3A, 0x40...0x5A, 0x61...0x7A: true
    // - . _ ~ and ! $ & ' ( ) * + , ; =
    case 0x2D, 0x2E, 0x5F, 0x7E, 0x21, 0x24, 0x26...0x2C, 0x3B, 0x3D: true
    default: false
    }
}

func isPathByte(_ byte: UInt8) -> Bool { isSegmentByte(byte) || byte == UInt8(ascii: "/") }
func isQueryByte(_ byte: UInt8) -> Bool { isPathByte(byte) || byte == UInt8(ascii: "?") }
