import ReelCore

/// One line of a file server's listing.
struct FolderLine: Equatable, Sendable {
    enum Kind: Sendable {
        case file, folder, link
        /// The folder itself, the one above it, a device.
        case other
    }

    var kind = Kind.file
    /// The name as the server has it.
    var name: [UInt8] = []
    /// Bytes.
    var length: Int64?
    /// Seconds since 1970. `ls -l` gives no time zone, so its times count as UTC.
    var modified: Int64?

    // MARK: MLSD

    /// Reads `type=file;size=1024;modify=20240506070809; name`; nil for any other line. Facts come in any case and
    /// order (RFC 3659, section 7.2).
    init?(facts line: ArraySlice<UInt8>) {
        // Not the first blank: values hold none, and a name may.
        guard let end = line.firstIndex(of: 0x20), end == line.startIndex || line[end - 1] == UInt8(ascii: ";") else {
            return nil
        }
        name = Array(line[(end + 1)...])
        var type: String?
        for fact in line[..<end].split(separator: UInt8(ascii: ";")) {
            let key = fact.prefix { $0 != UInt8(ascii: "=") }
            let value = fact[key.endIndex...].dropFirst()
            switch asciiLowercased(key) {
            case "type": type = asciiLowercased(value)
            case "size": length = decimal(value)
            case "modify": modified = Self.moment(value)
            default: break
            }
        }
        switch type {
        case "file": kind = .file
        case "dir": kind = .folder
        case "cdir", "pdir": kind = .other
        case let other?:
            // `OS.unix=symlink`, `OS.unix=slink:/target`.
            kind = other.hasPrefix("os.unix=slink") || other.hasPrefix("os.unix=symlink") ? .link : .other
        case nil: return nil
        }
    }

    /// `20240506070809`, and any fraction behind it, in UTC.
    private static func moment(_ text: ArraySlice<UInt8>) -> Int64? {
        let digits = text.prefix { isDigit($0) }
        guard digits.count == 14 else { return nil }
        func part(_ from: Int, _ count: Int) -> Int64 { decimal(digits.dropFirst(from).prefix(count)) ?? 0 }
        let (hour, minute, second) = (part(8, 2), part(10, 2), part(12, 2))
        guard hour < 24, minute < 60, second < 61 else { return nil }
        return secondsSince1970(year: part(0, 4), month: part(4, 2), day: part(6, 2)).map {
            $0 + hour * 3600 + minute * 60 + second
        }
    }

    // MARK: LIST

    /// Reads `-rw-r--r-- 1 me us 1024 May  6 07:08 name`, with the year in the place of the time where the date is old,
    /// or `05-06-24 07:08AM 1024 name`; nil where it is none.
    /// - Parameter now: seconds since 1970.
    init?(text line: ArraySlice<UInt8>, now: Int64) {
        guard let first = line.first else { return nil }
        if isDigit(first) {
            guard readWindows(line) else { return nil }
        } else {
            guard readUnix(line, now) else { return nil }
        }
    }

    private mutating func readUnix(_ line: ArraySlice<UInt8>, _ now: Int64) -> Bool {
        switch line.first {
        case UInt8(ascii: "-"): kind = .file
        case UInt8(ascii: "d"): kind = .folder
        case UInt8(ascii: "l"): kind = .link
        case UInt8(ascii: "b"), UInt8(ascii: "c"), UInt8(ascii: "p"), UInt8(ascii: "s"): kind = .other
        default: return false
        }
        let modes = line.prefix { !isBlank($0) }
        // With a sign for access lists or attributes behind them.
        guard modes.count >= 10, modes.dropFirst().prefix(9).allSatisfy({ "rwxsStTlL-".utf8.contains($0) }) else {
            return false
        }
        // Users and groups may have blanks in their names, or be left out: the length ends before the date.
        var cursor = ByteCursor(line[modes.endIndex...])
        var before: ArraySlice<UInt8> = []
        for _ in 0..<16 {
            cursor.take { $0 == 0x20 }
            var ahead = cursor
            if !before.isEmpty, before.allSatisfy(isDigit), let date = Self.date(&ahead, now), ahead.take(0x20) {
                (length, modified, name) = (decimal(before), date, Array(ahead.rest))
                if kind == .link { cutTarget() }
                return !name.isEmpty
            }
            before = cursor.take { $0 != 0x20 }
            if before.isEmpty { return false }
        }
        return false
    }

    /// `May  6 07:08`, `May  6 2024`, also with the day before the month.
    private static func date(_ cursor: inout ByteCursor, _ now: Int64) -> Int64? {
        var month = cursor.monthName()
        if month != nil { cursor.take { $0 == 0x20 } }
        guard let day = cursor.number(), cursor.take(0x20) else { return nil }
        cursor.take { $0 == 0x20 }
        if month == nil {
            month = cursor.monthName()
            guard cursor.take(0x20) else { return nil }
            cursor.take { $0 == 0x20 }
        }
        guard let month else { return nil }
        var ahead = cursor
        if let time = ahead.timeOfDay() {
            cursor = ahead
            return latest(month, day, time, now)
        }
        guard let year = cursor.number(), year >= 1000 else { return nil }
        return secondsSince1970(year: year, month: month, day: day)
    }

    /// The last such moment that is not in the future. A day's grace, as the server may be in another time zone.
    private static func latest(_ month: Int64, _ day: Int64, _ time: Int64, _ now: Int64) -> Int64? {
        let year = 1970 + now / 31_556_952
        // 29 February may be eight years back.
        for year in stride(from: year + 1, through: year - 8, by: -1) {
            if let start = secondsSince1970(year: year, month: month, day: day), start + time <= now + 86_400 {
                return start + time
            }
        }
        return nil
    }

    /// `name -> target`. A name that contains the arrow is cut at its first one: no server marks the end of the name.
    private mutating func cutTarget() {
        let arrow = Array(" -> ".utf8)
        if let place = name.indices.first(where: { name[$0...].starts(with: arrow) }) { name = Array(name[..<place]) }
    }

    /// IIS: `05-06-24  07:08AM       <DIR>          name`, or with a year of four digits.
    private mutating func readWindows(_ line: ArraySlice<UInt8>) -> Bool {
        var cursor = ByteCursor(line)
        let dash = UInt8(ascii: "-")
        guard let month = cursor.number(), cursor.take(dash), let day = cursor.number(), cursor.take(dash),
            let short = cursor.number(), cursor.take(0x20)
        else { return false }
        cursor.take { $0 == 0x20 }
        guard var time = cursor.timeOfDay() else { return false }
        let half = asciiLowercased(cursor.take(count: 2))
        guard ["am", "pm"].contains(half), cursor.take(0x20) else { return false }
        let hour = time / 3600 % 12 + (half == "pm" ? 12 : 0)
        time = hour * 3600 + time % 3600
        let year = short < 70 ? short + 2000 : short < 100 ? short + 1900 : short
        cursor.take { $0 == 0x20 }
        let word = cursor.take { $0 != 0x20 }
        guard cursor.take(0x20) else { return false }
        if word.elementsEqual("<DIR>".utf8) {
            kind = .folder
            cursor.take { $0 == 0x20 }
        } else {
            guard !word.isEmpty, let count = decimal(word) else { return false }
            length = count
        }
        modified = secondsSince1970(year: year, month: month, day: day).map { $0 + time }
        name = Array(cursor.rest)
        return !name.isEmpty
    }
}
