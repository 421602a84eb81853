/// A number of bytes as people write it: `4096`, `500M`, `1.5G`, `20GiB`. A unit is a power of 1024, with or without
/// `i` and `B`, as rclone reads it.
/// - Returns: nil if it is none, or more than an Int64 holds.
package func byteSize(_ text: some StringProtocol) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    guard !digits.isEmpty, let whole = Int64(digits) else { return nil }
    var rest = text[digits.endIndex...]
    if rest.isEmpty { return whole }
    var fraction: Substring = ""
    if rest.first == "." {
        let digits = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
        guard (1...3).contains(digits.count) else { return nil }
        rest = rest[digits.endIndex...]
        fraction = Substring(String(digits))
    }
    var unit = rest.lowercased()[...]
    if unit.last == "b" { unit.removeLast() }
    if unit.count == 2, unit.last == "i" { unit.removeLast() }
    let units: [Substring: Int64] = ["k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40]
    guard let size = units[unit] else { return nil }
    let (bytes, isTooLarge) = whole.multipliedReportingOverflow(by: size)
    guard !isTooLarge else { return nil }
    let scale = fraction.reduce(Int64(1)) { scale, _ in scale * 10 }
    let (sum, isOver) = bytes.addingReportingOverflow((Int64(fraction) ?? 0) * size / scale)
    return isOver ? nil : sum
}
