/// The findings of `reelfs doctor`, in order. They follow from facts alone: the code that gathers facts decides
/// nothing.
struct Diagnosis: Codable, Hashable {
    enum Mark: String, Codable {
        case ok
        /// It works, but could work better.
        case note
        /// It does not work.
        case bad
    }

    struct Finding: Codable, Hashable {
        var mark: Mark
        /// A sentence without its full stop.
        var fact: String
        /// The user's way out.
        var remedy: String?
    }

    var findings: [Finding] = []

    /// Whether all that is needed works.
    var isWell: Bool { !findings.contains { $0.mark == .bad } }

    mutating func ok(_ fact: String) { findings.append(Finding(mark: .ok, fact: fact)) }
    mutating func note(_ fact: String, _ remedy: String? = nil) {
        findings.append(Finding(mark: .note, fact: fact, remedy: remedy))
    }
    mutating func bad(_ fact: String, _ remedy: String?) {
        findings.append(Finding(mark: .bad, fact: fact, remedy: remedy))
    }

    /// One screen, 24 lines of 80 columns: a mark, a fact, and below it the remedy. If that is more, notes are shown
    /// without their remedies.
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
            let indent = String(repeating: " ", count: 6)
            return lines.enumerated().map { index, line in
                index == 0 ? mark + indent.dropFirst(mark.count) + line : indent + line
            }
        }
    }
}

/// Breaks a text at spaces into lines of at most `width` characters. Text of an origin cannot control the terminal.
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
