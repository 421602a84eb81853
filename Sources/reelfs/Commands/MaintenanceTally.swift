import Glibc
import ReelCore
import ReelThreads
import ReelVolume

/// The sum of several pieces of maintenance. A piece that fails does not keep the others from being done.
struct MaintenanceTally {
    private(set) var report = MaintenanceReport()
    var errors: [String] = []

    /// Adds a request to the daemon of the mount that `path` is on.
    /// - Parameter request: made of the path inside that mount.
    mutating func add(
        _ path: String, _ request: (String) -> ControlRequest, _ progress: (MaintenanceProgress) -> Void = { _ in }
    ) {
        add { () throws(Failure) in
            let place = try MountedPath(path)
            return try place.daemon.report(request(place.path), progress)
        }
    }

    /// Adds a piece of work, or its error.
    mutating func add(_ work: () throws(Failure) -> MaintenanceReport) {
        do throws(Failure) { report.add(try work()) } catch { errors.append(error.sentence) }
    }

    /// Writes the errors to stderr. - Returns: the exit status.
    func finish(isWell: Bool = true) -> Int32 {
        for error in errors { writeLine("reelfs: \(error)") }
        return isWell && errors.isEmpty ? 0 : Failure.Status.mount.rawValue
    }
}

/// Shows how far a long command is, on stderr: a bar on a terminal, a line for each tenth elsewhere.
final class ProgressBar {
    private let verb: String
    private let style: Style
    private var lastTenth: Int64 = 0
    private var isDrawn = false
    /// Why it waits, as the last line showed it; nil while it goes on.
    private var wait: String?
    private let begin = now()
    /// Someone at a terminal, or who reads a log, wonders about a silence of more.
    private static let silence = Duration.seconds(2)

    private enum Style {
        case none, lines, bar
    }

    /// - Parameter verb: `verifying`.
    init(_ verb: String, isQuiet: Bool) {
        self.verb = verb
        style = isQuiet ? .none : isatty(2) != 0 ? .bar : .lines
    }

    /// Shows progress, unless the bar is quiet.
    func show(_ progress: MaintenanceProgress) { show(progress, "") }

    /// - Parameter more: stands behind the numbers.
    func show(_ progress: MaintenanceProgress, _ more: String) {
        guard progress.total > 0 else { return }
        wait = nil
        switch style {
        case .none: return
        case .lines:
            let tenth = progress.done / max(1, progress.total / 10)
            guard tenth > lastTenth, tenth <= 10 else { return }
            lastTenth = tenth
            writeLine("\(verb): \(Self.text(progress))\(more)")
        case .bar:
            draw(Self.line(verb, progress, more, columns: terminalSize(2).columns))
        }
    }

    /// Shows why nothing comes: on a terminal now, elsewhere a line for each reason.
    /// - Parameter atOnce: false: only after a while, as it may pass.
    func wait(_ reason: String, atOnce: Bool) {
        guard atOnce || now() - begin > Self.silence else { return }
        switch style {
        case .none: return
        case .lines:
            guard wait == nil || atOnce && wait != reason else { return }
            wait = reason
            writeLine("\(verb): \(reason)")
        case .bar: draw(cut("\(verb): \(reason)", to: terminalSize(2).columns - 1))
        }
    }

    private func draw(_ line: String) {
        isDrawn = true
        writeAll(2, Array("\r\u{1B}[K\(line)".utf8))
    }

    /// A line with a bar in the room that its numbers leave; without one where there is too little.
    static func line(_ verb: String, _ progress: MaintenanceProgress, _ more: String, columns: Int) -> String {
        let text = " " + Self.text(progress) + more
        // The last column is left free: some terminals begin a new line behind it. Brackets and a space.
        let room = columns - 1 - verb.count - text.count - 3
        let bar = room >= 8 ? " " + Self.bar(progress, width: min(30, room)) : ""
        return cut(verb + bar + text, to: columns - 1)
    }

    /// Removes the bar and starts again, for the next piece of work.
    func end() {
        if isDrawn { writeAll(2, Array("\r\u{1B}[K".utf8)) }
        isDrawn = false
        lastTenth = 0
    }

    private static func text(_ progress: MaintenanceProgress) -> String {
        "\(humanSize(progress.done)) of \(humanSize(progress.total)), \(percent(progress.done, progress.total))"
    }

    /// `[##..]`. - Parameter width: characters between the brackets.
    static func bar(_ progress: MaintenanceProgress, width: Int) -> String {
        let part = Double(progress.done) / Double(max(1, progress.total))
        let full = Int(min(1, max(0, part)) * Double(width))
        return "[" + String(repeating: "#", count: full) + String(repeating: ".", count: width - full) + "]"
    }
}
