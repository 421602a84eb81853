import ReelCore

// UTF-8 and percent-encoding on bytes: what a stranger's page holds need not be text.

extension Array where Element == UInt8 {
    /// 0 past the end, so that looking ahead needs no bounds of its own.
    subscript(safe index: Int) -> UInt8 { index < count ? self[index] : 0 }
}

/// The length of the well-formed UTF-8 sequence that `bytes` starts with (RFC 3629); 0 where there is none.
func utf8Length(_ bytes: ArraySlice<UInt8>) -> Int {
    guard let first = bytes.first else { return 0 }
    let count: Int
    var second: ClosedRange<UInt8> = 0x80...0xBF
    switch first {
    case 0...0x7F: return 1
    case 0xC2...0xDF: count = 2
    case 0xE0: (count, second) = (3, 0xA0...0xBF)
    case 0xED: (count, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: count = 3
    case 0xF0: (count, second) = (4, 0x90...0xBF)
    case 0xF4: (count, second) = (4, 0x80...0x8F)
    case 0xF1...0xF3: count = 4
    default: return 0
    }
    guard bytes.count >= count, second.contains(bytes[bytes.startIndex + 1]) else { return 0 }
    for index in bytes.startIndex + 2..<bytes.startIndex + max(count, 2) where bytes[index] & 0xC0 != 0x80 { return 0 }
    return count
}

/// The bytes with each one that `isKept` refuses, or that is no UTF-8, replaced by what `replace` appends; nil where
/// nothing has to be replaced.
func repairedUTF8(
    _ bytes: [UInt8], keeping isKept: (UInt8) -> Bool = { _ in true }, replace: (UInt8, inout [UInt8]) -> Void
) -> [UInt8]? {
    var result: [UInt8] = []
    var copied = 0
    var index = 0
    while index < bytes.count {
        let count = bytes[index] < 0x80 ? 1 : utf8Length(bytes[index...])
        if count > 0 && isKept(bytes[index]) {
            index += count
            continue
        }
        result.append(contentsOf: bytes[copied..<index])
        replace(bytes[index], &result)
        index += 1
        copied = index
    }
    guard copied > 0 else { return nil }
    result.append(contentsOf: bytes[copied...])
    return result
}

/// `%XX`.
func appendEscape(of byte: UInt8, to result: inout [UInt8]) {
    let digit = { (value: UInt8) in value < 10 ? 0x30 + value : 0x37 + value }
    result += [0x25, digit(byte >> 4), digit(byte & 15)]
}

/// Percent-encoding undone, once. A `%` that no two hex digits follow stays as it is.
func percentDecodedBytes(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    guard bytes.contains(0x25) else { return Array(bytes) }
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count)
    var index = bytes.startIndex
    while index < bytes.endIndex {
        if bytes[index] == 0x25, let byte = escapedByte(bytes[index...]) {
            result.append(byte)
            index += 3
        } else {
            result.append(bytes[index])
            index += 1
        }
    }
    return result
}

/// The byte of the escape that `bytes` starts with.
func escapedByte(_ bytes: ArraySlice<UInt8>) -> UInt8? {
    guard bytes.count >= 3, let high = hexDigit(bytes[bytes.startIndex + 1]),
        let low = hexDigit(bytes[bytes.startIndex + 2])
    else { return nil }
    return high << 4 | low
}

/// True for what may stand in a segment of a URL's path (RFC 3986, `pchar`), `%` apart.
func isSegmentByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x40...0x5A, 0x61...0x7A: true
    case 0x21, 0x24, 0x26...0x2E, 0x3A, 0x3B, 0x3D, 0x5F, 0x7E: true
    default: false
    }
}

func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }

/// Without blanks at both ends.
func trimmedBytes(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    guard let first = bytes.firstIndex(where: { !isBlank($0) }), let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return [] }
    return bytes[first...last]
}
