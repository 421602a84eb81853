/// What `reelfs doctor` found, in the order in which it is told. Made from facts alone: who gathers them decides nothing.
struct Diagnosis: Codable, Hashable {
    enum Mark: String, Codable {
        case ok
        /// It works, but not as well as it could.
        case note
        /// It does not work.
        case bad
    }

    struct Finding: Codable, Hashable {
        var mark: Mark
        /// One fact, as a sentence without its end.
        var fact: String
        /// What to do about it.
        var remedy: String?
    }

    var findings: [Finding] = []

    var isWell: Bool { !findings.contains { $0.mark == .bad } }

    mutating func ok(_ fact: String) { findings.append(Finding(mark: .ok, fact: fact)) }
    mutating func note(_ fact: String, _ remedy: String? = nil) {
        findings.append(Finding(mark: .note, fact: fact, remedy: remedy))
    }
    mutating func bad(_ fact: String, _ remedy: String?) {
        findings.append(Finding(mark: .bad, fact: fact, remedy: remedy))
    }

    /// One screen, 24 lines of 80 columns: a mark, a fact, and below it the remedy. Where that is more, what only could be
    /// better goes without its remedy.
    var text: String {
        let whole = lines(of: findings)
        if whole.count <= 24 { return whole.joined(separator: "\n") }
        let short = findings.map { Finding(mark: $0.mark, fact: $0.fact, remedy: $0.mark == .bad ? $0.remedy : nil) }
        return lines(of: short).joined(separator: "\n")
    }

    private func lines(of findings: [Finding]) -> [String] {
        findings.flatMap { finding in
            let mark = finding.mark.rawValue
            let lines = wrapped(finding.fact, 74) + (finding.remedy.map { wrapped($0, 74) } ?? [])
            return lines.enumerated().map { index, line in (index == 0 ? mark : "").padded(to: 6) + line }
        }
    }
}

/// Broken at spaces into lines of at most `width` characters; what comes from an origin cannot control the terminal.
private func wrapped(_ text: String, _ width: Int) -> [String] {
    var lines: [String] = []
    for word in printable(text).split(separator: " ") {
        if let last = lines.last, last.count + 1 + word.count <= width {
            lines[lines.count - 1] = last + " " + word
        } else {
            lines.append(word.count > width ? String(word.prefix(width - 1)) + "…" : String(word))
        }
    }
    return lines
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

/// 1000 to a step, as lines are sold: `38 Mbit/s`. - Parameter bytes: a second.
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
