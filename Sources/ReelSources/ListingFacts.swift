import ReelCore

/// What stands beside a link in a listing: its size and date, as far as they can be told from the text.
struct ListingFacts: Equatable {
    /// Bytes, only where the text is exact: digits without a unit, or with `B`.
    var length: Int64?
    /// Seconds since 1970.
    var modified: Int64?
    /// True where the text has the shape of a size, exact or not.
    var hasSize = false

    init() {}

    /// Reads the text behind a link, cut into cells where the page has a table.
    ///
    /// A number is believed to be a size only beside a date, and where nothing but the date and the number stands on
    /// the line: a description ("1999 remaster") is no size.
    init(cells: [ArraySlice<UInt8>]) {
        let cells = cells.map(trimmedBytes)
        for (index, cell) in cells.enumerated() {
            guard let (date, count) = listingDate(cell) else { continue }
            modified = date
            let rest = trimmedBytes(cell.dropFirst(count))
            if !rest.isEmpty {
                take(rest)
            } else {
                // Two numbers around a date may be anything, a count of downloads for one: neither is believed.
                let beside = [index - 1, index + 1].lazy.filter { cells.indices.contains($0) }.map { cells[$0] }
                for cell in beside {
                    let isSecond = hasSize
                    if take(cell), isSecond { length = nil }
                }
            }
            return
        }
    }

    /// Takes the text for a size where it has the shape of one; false where it has not.
    @discardableResult
    private mutating func take(_ text: ArraySlice<UInt8>) -> Bool {
        if text.elementsEqual([0x2D]) {
            hasSize = true
            return true
        }
        let digits = text.prefix { $0 >= 0x30 && $0 <= 0x39 }
        guard !digits.isEmpty else { return false }
        let unit = trimmedBytes(text[digits.endIndex...])
        if unit.isEmpty || unit.elementsEqual([0x42]) {
            length = decimal(String(decoding: digits, as: UTF8.self))
        } else if unit.count > 6 || !unit.allSatisfy({ "0123456789. KMGTPEkiB".utf8.contains($0) }) {
            return false
        }
        hasSize = true
        return true
    }
}

/// A date at the start of `text`, and how many bytes it takes. Understood: `06-May-2024 07:08`, `2024-May-06 07:08:09`,
/// `2024-05-06 07:08`, `2024-05-06T07:08:09Z`, `2024-05-06 07:08:09.5 +0000 UTC`, `…+02:00`.
func listingDate(_ text: ArraySlice<UInt8>) -> (seconds: Int64, count: Int)? {
    var scanner = DateScanner(rest: text)
    guard let first = scanner.number(), scanner.skip(0x2D), let month = scanner.month(), scanner.skip(0x2D),
        let last = scanner.number(), scanner.skip(0x20) || scanner.skip(0x54), let hour = scanner.number(), hour < 24,
        scanner.skip(0x3A), let minute = scanner.number(), minute < 60
    else { return nil }
    var second: Int64 = 0
    if scanner.skip(0x3A) {
        guard let number = scanner.number(), number < 61 else { return nil }
        second = number
        if scanner.skip(0x2E) { _ = scanner.digits() }
    }
    let isYearFirst = first > 31
    guard let day = secondsSince1970(year: isYearFirst ? first : last, month: month, day: isYearFirst ? last : first)
    else { return nil }
    let zone = scanner.zone()
    return (day + hour * 3600 + minute * 60 + second - zone, text.count - scanner.rest.count)
}

private struct DateScanner {
    var rest: ArraySlice<UInt8>

    mutating func skip(_ byte: UInt8) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    mutating func digits() -> ArraySlice<UInt8> {
        let digits = rest.prefix { $0 >= 0x30 && $0 <= 0x39 }
        rest = rest[digits.endIndex...]
        return digits
    }

    mutating func number() -> Int64? {
        let digits = digits()
        return (1...4).contains(digits.count) ? digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) } : nil
    }

    /// A number or the first three letters of an English name.
    mutating func month() -> Int64? {
        if let number = number() { return number }
        let names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
        guard let index = names.firstIndex(of: asciiLowercased(String(decoding: rest.prefix(3), as: UTF8.self))) else {
            return nil
        }
        rest = rest.dropFirst(3)
        return Int64(index + 1)
    }

    /// Seconds east of Greenwich; 0, and nothing taken, where there is no zone.
    mutating func zone() -> Int64 {
        if skip(0x5A) { return 0 }
        let start = rest
        while skip(0x20) {}
        guard let sign = rest.first, sign == 0x2B || sign == 0x2D else {
            rest = start
            return 0
        }
        rest.removeFirst()
        let hours = rest.prefix(2)
        var minutes = rest.dropFirst(2)
        if minutes.first == 0x3A { minutes = minutes.dropFirst() }
        guard let hours = decimal(String(decoding: hours, as: UTF8.self)), hours < 24,
            let minutes = decimal(String(decoding: minutes.prefix(2), as: UTF8.self)), minutes < 60
        else {
            rest = start
            return 0
        }
        rest = []
        return (sign == 0x2B ? 1 : -1) * (hours * 3600 + minutes * 60)
    }
}
