import Glibc
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
        switch style {
        case .none: return
        case .lines:
            let tenth = progress.done / max(1, progress.total / 10)
            guard tenth > lastTenth, tenth <= 10 else { return }
            lastTenth = tenth
            writeLine("\(verb): \(Self.text(progress))\(more)")
        case .bar:
            isDrawn = true
            writeAll(2, Array("\r\u{1B}[K\(verb) \(Self.bar(progress, width: 30)) \(Self.text(progress))\(more)".utf8))
        }
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
