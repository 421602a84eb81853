// Reads and writes the dates of headers and listings. libcurl's `curl_getdate` does not replace this: it takes 31
// February for 2 March, and a day without a time or in a zone of its own for a date (RFC 9110 has GMT alone), and it
// reads no date that begins with a year, as listings have them.

private let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
/// The three letters of each in lower case, the first one highest.
private let monthLetters: [UInt32] = months.map { $0.utf8.reduce(0) { $0 << 8 | UInt32($1 | 0x20) } }

/// An HTTP date as seconds since 1970, in any of the three forms of RFC 9110, section 5.6.7; nil where it is none.
package func httpDate(_ text: String) -> Int64? { httpDate(Array(text.utf8)[...]) }

/// Like that for a `String`.
package func httpDate(_ text: ArraySlice<UInt8>) -> Int64? {
    // The longest form has 33 bytes.
    guard text.count <= 64 else { return nil }
    var cursor = ByteCursor(text)
    func isBetween(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x2C || byte == 0x2D }
    func next<Value>(_ read: (inout ByteCursor) -> Value?) -> Value? {
        cursor.take(while: isBetween)
        return read(&cursor)
    }
    // "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"
    cursor.take { !isBetween($0) }
    let date: (year: Int64, month: Int64, day: Int64, time: Int64)
    if let month = next({ $0.monthName() }) {
        guard let day = next({ $0.number() }), let time = next({ $0.timeOfDay() }), let year = next({ $0.number() })
        else { return nil }
        date = (year, month, day, time)
    } else {
        guard let day = next({ $0.number() }), let month = next({ $0.monthName() }), let year = next({ $0.number() }),
            let time = next({ $0.timeOfDay() })
        else { return nil }
        date = (year < 100 ? year + (year < 70 ? 2000 : 1900) : year, month, day, time)
    }
    return secondsSince1970(year: date.year, month: date.month, day: date.day).map { $0 + date.time }
}

extension ByteCursor {
    /// Takes the first three letters of an English month, in any case: 1 to 12.
    package mutating func monthName() -> Int64? {
        let name = rest.prefix(3)
        guard name.allSatisfy(isLetter),
            let place = monthLetters.firstIndex(of: name.reduce(0) { $0 << 8 | UInt32($1 | 0x20) })
        else { return nil }
        take(count: 3)
        return Int64(place + 1)
    }

    /// Takes `07:08`, `07:08:09` or `07:08:09.5`: whole seconds since midnight.
    package mutating func timeOfDay() -> Int64? {
        guard let hour = number(), hour < 24, take(0x3A), let minute = number(), minute < 60 else { return nil }
        guard take(0x3A) else { return hour * 3600 + minute * 60 }
        guard let second = number(), second < 61 else { return nil }
        if take(0x2E) { take(while: isDigit) }
        return hour * 3600 + minute * 60 + second
    }
}

/// The years that have dates here, from their first second to their last: four digits, and whole cycles of leap years.
private let firstYear: Int64 = 1601
private let (firstSecond, lastSecond): (Int64, Int64) = (-11_644_473_600, 253_402_300_799)

/// Seconds since 1970 in the form that HTTP wants: `Sun, 06 Nov 1994 08:49:37 GMT`. A moment that no such date can name
/// (a damaged index may hold any) becomes the nearest that one can.
package func httpDateText(_ seconds: Int64) -> String {
    let date = calendarDate(seconds)
    let weekday = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][date.weekday]
    return "\(weekday), \(twoDigits(date.day)) \(months[Int(date.month) - 1]) \(date.year) \(clockText(date.time)) GMT"
}

/// The day of a moment in UTC, as ISO 8601 writes it: `1994-11-06`; bounded as `httpDateText`.
package func isoDay(_ seconds: Int64) -> String {
    let date = calendarDate(seconds)
    return "\(date.year)-\(twoDigits(date.month))-\(twoDigits(date.day))"
}

/// A moment in UTC, as listings of servers write it: `1994-11-06 08:49:37`; bounded as `httpDateText`.
package func isoTime(_ seconds: Int64) -> String {
    "\(isoDay(seconds)) \(clockText(calendarDate(seconds).time))"
}

/// - Returns: in UTC; `weekday` counts from Monday, `time` is seconds since midnight.
private func calendarDate(
    _ seconds: Int64
) -> (year: Int64, month: Int64, day: Int64, weekday: Int, time: Int64) {
    let seconds = min(max(seconds, firstSecond), lastSecond)
    let (days, time) = (seconds - firstSecond).quotientAndRemainder(dividingBy: 86_400)
    func start(_ year: Int64, _ month: Int64) -> Int64 { secondsSince1970(year: year, month: month, day: 1) ?? .max }
    // Too early by a few years at most.
    var year = firstYear + days / 366
    while start(year + 1, 1) <= seconds { year += 1 }
    let month = (2...12).last { start(year, $0) <= seconds } ?? 1
    // The first day was a Monday.
    return (year, month, (seconds - start(year, month)) / 86_400 + 1, Int(days % 7), time)
}

/// Days before each month of a year that is no leap year, and before the next year.
private let monthStarts: [Int64] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365]

/// The start of a day of the proleptic Gregorian calendar; nil for a day that no month has.
package func secondsSince1970(year: Int64, month: Int64, day: Int64) -> Int64? {
    guard (1...12).contains(month), (firstYear...9999).contains(year) else { return nil }
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    // Where a month begins; February's 29th moves those behind it.
    func start(_ month: Int64) -> Int64 { monthStarts[Int(month) - 1] + (isLeap && month > 2 ? 1 : 0) }
    guard (1...start(month + 1) - start(month)).contains(day) else { return nil }
    let years = year - firstYear
    return firstSecond + (years * 365 + years / 4 - years / 100 + years / 400 + start(month) + day - 1) * 86_400
}

/// - Parameter time: seconds since midnight.
private func clockText(_ time: Int64) -> String {
    [time / 3600, time / 60 % 60, time % 60].map(twoDigits).joined(separator: ":")
}

private func twoDigits(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
