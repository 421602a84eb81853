import Glibc
import ReelSources

// Numbers, times and tables as people read them. Some come from a daemon or an origin, and may be absurd.

/// `1 file`, `2 files`.
func count(_ number: Int, _ noun: String, plural: String? = nil) -> String {
    "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
}

/// Rounded down, so that `100 %` means all of it.
func percent(_ part: Int64, _ whole: Int64) -> String {
    guard whole > 0 else { return "100 %" }
    return "\(Int64(exactly: (Double(part) * 100 / Double(whole)).rounded(.down)) ?? 0) %"
}

/// In bits, 1000 to a step, as lines are sold: `38 Mbit/s`. - Parameter bytes: a second.
func bitRate(_ bytes: Double) -> String {
    var value = bytes * 8 / 1000
    var unit = 0
    while value >= 999.5, unit < 2 {
        value /= 1000
        unit += 1
    }
    let number = value < 9.95 ? String((value * 10).rounded() / 10) : String(Int64(value.rounded()))
    return "\(number) \(["kbit", "Mbit", "Gbit"][unit])/s"
}

/// `0.4 ms`, `12 ms`, `1.5 s`.
func shortTime(_ time: Duration) -> String {
    let milliseconds = time.seconds * 1000
    if milliseconds >= 1000 { return "\((milliseconds / 100).rounded() / 10) s" }
    return milliseconds < 9.95
        ? "\((milliseconds * 10).rounded() / 10) ms" : "\(Int64(milliseconds.rounded())) ms"
}

/// `2h10m`, `45m`, `20s`.
func longTime(_ seconds: Int64) -> String {
    if seconds < 60 { return "\(seconds)s" }
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60)
    if hours == 0 { return "\(minutes)m" }
    return minutes == 0 ? "\(hours)h" : "\(hours)h\(minutes)m"
}

/// `2024-05-01 17:03`, in the caller's time zone. - Parameter seconds: since 1970.
func localTime(_ seconds: Int64) -> String { localTime(time_t(seconds), "%Y-%m-%d %H:%M") }

/// `17:03:59`, in the caller's time zone. - Parameter moment: as RFC 3339 writes it.
func localTimeOfDay(_ moment: String) -> String { feedDate(moment).map { localTime(time_t($0), "%H:%M:%S") } ?? "?" }

private func localTime(_ moment: time_t, _ format: String) -> String {
    var (moment, parts) = (moment, tm())
    localtime_r(&moment, &parts)
    var bytes = [CChar](repeating: 0, count: 32)
    let count = strftime(&bytes, bytes.count, format, &parts)
    return String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// Right-aligned columns, the last one left-aligned.
func table(_ rows: [[String]]) -> String {
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
        let cells = row.indices.map { column in
            column == row.count - 1
                ? row[column] : String(repeating: " ", count: widths[column] - row[column].count) + row[column]
        }
        return "  " + cells.joined(separator: "  ")
    }.joined(separator: "\n")
}
