private let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

/// An HTTP date as seconds since 1970, in any of the three forms that RFC 9110, section 5.6.7, wants understood.
package func httpDate(_ text: String) -> Int64? {
    // The longest form has 33 bytes.
    guard text.utf8.count <= 64 else { return nil }
    let words = asciiLowercased(text).utf8.split { $0 == 0x20 || $0 == 0x2C || $0 == 0x2D }.map { String($0) ?? "" }
    // "sun 06 nov 1994 08:49:37 gmt", "sunday 06 nov 94 08:49:37 gmt", "sun nov 6 08:49:37 1994"
    guard words.count >= 5 else { return nil }
    if let month = months.firstIndex(of: words[2]) {
        guard let day = decimal(words[1]), var year = decimal(words[3]), let time = timeOfDay(words[4]) else {
            return nil
        }
        if words[3].utf8.count == 2 { year += year < 70 ? 2000 : 1900 }
        return secondsSince1970(year: year, month: Int64(month + 1), day: day).map { $0 + time }
    }
    guard let month = months.firstIndex(of: words[1]), let day = decimal(words[2]), let time = timeOfDay(words[3]),
        let year = decimal(words[4])
    else { return nil }
    return secondsSince1970(year: year, month: Int64(month + 1), day: day).map { $0 + time }
}

/// The same moment written as HTTP wants it sent: `Sun, 06 Nov 1994 08:49:37 GMT`. Moments that no such date can name
/// (a damaged index may hold any) become the nearest that one can.
package func httpDateText(_ seconds: Int64) -> String {
    // The years from 1601 to 9999, as `secondsSince1970` takes them.
    let seconds = min(max(seconds, -11_644_473_600), 253_402_300_799)
    let (year, month, day) = civil(seconds)
    let days = seconds.flooredQuotient(86_400)
    let rest = seconds - days * 86_400
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][Int((days % 7 + 7) % 7)]
    let name = months[Int(month) - 1]
    let monthName = name.prefix(1).uppercased() + name.dropFirst()
    let clock = [rest / 3600, rest / 60 % 60, rest % 60].map(twoDigits).joined(separator: ":")
    return "\(weekday), \(twoDigits(day)) \(monthName) \(year) \(clock) GMT"
}

/// Days and months of the proleptic Gregorian calendar; nil for a day that no month has.
package func secondsSince1970(year: Int64, month: Int64, day: Int64) -> Int64? {
    guard (1...12).contains(month), (1601...9999).contains(year) else { return nil }
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    guard (1...lengths[Int(month) - 1]).contains(day) else { return nil }
    // Years counted from March, so that the leap day is a year's last.
    let shifted = month > 2 ? year : year - 1
    let yearDays = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400
    let monthDays = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5
    return (yearDays + monthDays + day - 1 - 719_468) * 86_400
}

private func civil(_ seconds: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let days = seconds.flooredQuotient(86_400) + 719_468
    let era = days.flooredQuotient(146_097)
    let dayOfEra = days - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
}

private func timeOfDay(_ text: String) -> Int64? {
    let parts = Array(text.utf8).split(separator: 0x3A, omittingEmptySubsequences: false).map { decimal($0) }
    guard parts.count == 3, let hour = parts[0], let minute = parts[1], let second = parts[2],
        hour < 24, minute < 60, second < 61
    else { return nil }
    return hour * 3600 + minute * 60 + second
}

private func twoDigits(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

extension Int64 {
    fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
