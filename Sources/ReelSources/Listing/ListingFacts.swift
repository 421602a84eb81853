import ReelCore

/// What stands beside a link in a listing: its size and date, as far as the text gives them.
struct ListingFacts: Equatable {
    /// Bytes, only if the text is exact: digits without a unit, or with `B`.
    var length: Int64?
    /// Seconds since 1970.
    var modified: Int64?
    /// True if the text has the shape of a size, exact or not.
    var hasSize = false

    init() {}

    /// Reads the text behind a link, cut into cells where the page has a table.
    ///
    /// A number is believed to be a size only beside a date, and where nothing but the date and the number stands on
    /// the line: a description ("1999 remaster") is no size.
    init(cells: [ArraySlice<UInt8>]) {
        let cells = cells.map(trimmedBytes)
        for (index, cell) in cells.enumerated() {
            var cursor = ByteCursor(cell)
            guard let date = cursor.listingDate() else { continue }
            modified = date
            let rest = trimmedBytes(cursor.rest)
            if !rest.isEmpty {
                take(rest)
            } else {
                // Two numbers around a date may be anything, a count of downloads for one: neither is believed.
                for place in [index - 1, index + 1] where cells.indices.contains(place) {
                    let isSecond = hasSize
                    if take(cells[place]), isSecond { length = nil }
                }
            }
            return
        }
    }

    /// Takes the text for a size where it has the shape of one; false where it has not.
    @discardableResult
    private mutating func take(_ text: ArraySlice<UInt8>) -> Bool {
        if !text.elementsEqual("-".utf8) {
            let digits = text.prefix(while: isDigit)
            let unit = trimmedBytes(text[digits.endIndex...])
            if digits.isEmpty { return false }
            if unit.isEmpty || unit.elementsEqual("B".utf8) {
                length = decimal(digits)
            } else if unit.count > 6 || !unit.allSatisfy({ "0123456789. KMGTPEkiB".utf8.contains($0) }) {
                return false
            }
        }
        hasSize = true
        return true
    }
}

extension ByteCursor {
    /// Takes the date at the start, as seconds since 1970; nil where there is none. Understood: `06-May-2024 07:08`,
    /// `2024-May-06 07:08:09`, `2024-05-06T07:08:09Z`, `2024-05-06 07:08:09.5 +0000 UTC`, `…+02:00`.
    mutating func listingDate() -> Int64? {
        let dash = UInt8(ascii: "-")
        guard let first = number(), take(dash), let month = number() ?? monthName(), take(dash), let last = number(),
            take(0x20) || take(UInt8(ascii: "T")), let time = timeOfDay()
        else { return nil }
        let (year, day) = first > 31 ? (first, last) : (last, first)
        return secondsSince1970(year: year, month: month, day: day).map { $0 + time - zone() }
    }

    /// Takes the zone, and all that follows it, as it is the last of a date: seconds east of Greenwich. 0, and nothing
    /// taken, where there is none, or one with a name.
    mutating func zone() -> Int64 {
        var ahead = self
        if ahead.take(UInt8(ascii: "Z")) {
            self = ahead
            return 0
        }
        ahead.take(while: isBlank)
        let isEast = ahead.take(UInt8(ascii: "+"))
        guard isEast || ahead.take(UInt8(ascii: "-")) else { return 0 }
        let digits = ahead.take { isDigit($0) || $0 == UInt8(ascii: ":") }.filter(isDigit)[...]
        guard digits.count == 4, let hours = decimal(digits.prefix(2)), hours < 24,
            let minutes = decimal(digits.suffix(2)), minutes < 60
        else { return 0 }
        rest = []
        return (isEast ? 1 : -1) * (hours * 3600 + minutes * 60)
    }
}
