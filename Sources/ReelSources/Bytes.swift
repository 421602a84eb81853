// UTF-8 on bytes: what a stranger's page holds need not be text.

extension Array where Element == UInt8 {
    /// 0 past the end, so that looking ahead needs no bounds of its own.
    subscript(safe index: Int) -> UInt8 { index < count ? self[index] : 0 }
}

extension ArraySlice where Element == UInt8 {
    /// 0 past the end.
    subscript(safe index: Int) -> UInt8 { index < endIndex ? self[index] : 0 }
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
