import Glibc
import ReelVolume

/// How far a long command is, on stderr: a bar on a terminal, a line for each tenth elsewhere.
final class ProgressBar {
    private let verb: String
    private let style: Style
    private var lastTenth: Int64 = 0
    private var isDrawn = false

    private enum Style {
        case none, lines, bar
    }

    /// - Parameter verb: what is being done: `verifying`.
    init(_ verb: String, isQuiet: Bool) {
        self.verb = verb
        style = isQuiet ? .none : isatty(2) != 0 ? .bar : .lines
    }

    func show(_ progress: MaintenanceProgress) {
        guard progress.total > 0 else { return }
        switch style {
        case .none: return
        case .lines:
            let tenth = progress.done / max(1, progress.total / 10)
            guard tenth > lastTenth, tenth <= 10 else { return }
            lastTenth = tenth
            writeLine("\(verb): \(Self.text(progress))")
        case .bar:
            isDrawn = true
            writeAll(2, Array("\r\u{1B}[K\(verb) \(Self.bar(progress, width: 30)) \(Self.text(progress))".utf8))
        }
    }

    /// Takes the bar away: what is printed next begins a line.
    func end() {
        if isDrawn { writeAll(2, Array("\r\u{1B}[K".utf8)) }
        isDrawn = false
    }

    static func text(_ progress: MaintenanceProgress) -> String {
        "\(humanSize(progress.done)) of \(humanSize(progress.total)), \(percent(progress.done, progress.total))"
    }

    static func bar(_ progress: MaintenanceProgress, width: Int) -> String {
        let part = Double(progress.done) / Double(max(1, progress.total))
        let full = min(width, max(0, Int(part * Double(width))))
        return "[" + String(repeating: "#", count: full) + String(repeating: ".", count: width - full) + "]"
    }
}
