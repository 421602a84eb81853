/// Bytes a second by the time of day, as `--limit-rate` names them: `2M`, `off`, or `08:00,2M 23:00,off`.
package struct RateSchedule: Hashable, Sendable {
    private struct Entry: Hashable, Sendable {
        /// Minutes since midnight.
        var start: Int
        /// nil for no limit.
        var rate: Int64?
    }

    /// More changes a day than anybody needs, few enough to look at all of them.
    private static let mostEntries = 96
    /// Slower than a byte now and then: requests would never end. Faster than any line: a mistake.
    private static let least: Int64 = 1024
    private static let most: Int64 = 1 << 46

    /// By their starts; a single one without a time holds all day.
    private let entries: [Entry]
    /// The text as it was given, in one spelling.
    package let text: String

    /// No limit.
    package static let off = RateSchedule(rate: nil)

    /// The same rate all day. - Parameter rate: bytes a second, nil for no limit.
    package init(rate: Int64?) {
        entries = [Entry(start: 0, rate: rate)]
        text = rate.map { "\($0)" } ?? "off"
    }

    /// - Parameter text: a rate, or several words `HH:MM,RATE`; nil if it is neither.
    package init?(_ text: String) {
        let words = text.split(separator: " ")
        guard !words.isEmpty, words.count <= Self.mostEntries else { return nil }
        var entries: [Entry] = []
        for word in words {
            let parts = word.split(separator: ",", omittingEmptySubsequences: false)
            guard let last = parts.last, let rate = Self.rate(last) else { return nil }
            if parts.count == 1, words.count == 1 {
                entries.append(Entry(start: 0, rate: rate.value))
            } else {
                guard parts.count == 2, let start = Self.minute(parts[0]),
                    !entries.contains(where: { $0.start == start })
                else { return nil }
                entries.append(Entry(start: start, rate: rate.value))
            }
        }
        self.entries = entries.sorted { $0.start < $1.start }
        self.text = words.joined(separator: " ")
    }

    /// The rate at a time of day: that of the entry which began last, before midnight if need be.
    /// - Parameter minute: since midnight.
    package func rate(at minute: Int) -> Int64? { (entries.last { $0.start <= minute } ?? entries.last)?.rate }

    /// Whether it limits nothing at any time.
    package var isOff: Bool { entries.allSatisfy { $0.rate == nil } }

    /// `08:00`.
    private static func minute(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let hour = number(parts[0], digits: 1...2),
            let minute = number(parts[1], digits: 2...2),
            hour < 24, minute < 60
        else { return nil }
        return Int(hour * 60 + minute)
    }

    /// `2M`, in powers of 1024, or `off`.
    private static func rate(_ text: Substring) -> (value: Int64?, Void)? {
        if text == "off" { return (nil, ()) }
        guard let rate = byteSize(text), (least...most).contains(rate) else { return nil }
        return (rate, ())
    }

    private static func number(_ text: Substring, digits: ClosedRange<Int>) -> Int64? {
        guard digits.contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}
