import ArgumentParser
import ReelVolume

struct ExplainCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show what was fetched of a file, when, for which program, and why.",
        discussion: "The daemon remembers the requests of the last hours, and forgets them when the mount ends.")

    @Argument(help: "File or directory on a mount.", completion: .file()) var path: String
    @Flag(help: "Print JSON.") var json = false

    func perform() throws -> Int32 {
        let place = try MountedPath(path)
        let answer = place.daemon.ask(ControlRequest(command: "explain", path: place.path)) { _ in }
        guard let explanation = answer?.explanation else {
            throw Failure.mount(answer?.error ?? ControlClient.silence)
        }
        if json { sayJSON(explanation) } else { say(explanationText(explanation)) }
        return 0
    }
}

/// A file's requests for `reelfs explain`: its state, the sums, then a line a request.
func explanationText(_ told: Explanation) -> String {
    var text = printable(told.path.isEmpty ? "/" : told.path)
    text += ": \(humanSize(told.cached)) of \(told.length.map { humanSize($0) } ?? "?") cached"
    if told.openHandles > 0 { text += ", open \(count(told.openHandles, "time"))" }
    if let demanded = told.demanded, let ahead = told.speculative, let unread = told.unread, let wasted = told.wasted {
        text += "\n  since its open: \(humanSize(demanded)) demanded, \(humanSize(ahead)) ahead of its readers"
        text += ", \(humanSize(unread)) of it not read yet, \(humanSize(wasted)) wasted"
    }
    guard !told.requests.isEmpty else { return text + "\n\nNo request in the last hours." }
    return text + "\n\n" + table(sumRows(told.sums)) + "\n\n" + table(requestRows(told.requests))
}

private func sumRows(_ sums: [Explanation.Sum]) -> [[String]] {
    var rows = [["why", "program", "requests", "failed", "bytes"]]
    for sum in sums {
        let failed = sum.failed > 0 ? String(sum.failed) : "-"
        rows.append([sum.why, printable(sum.program ?? "-"), String(sum.requests), failed, humanSize(sum.bytes)])
    }
    return rows
}

private func requestRows(_ requests: [RequestRecord]) -> [[String]] {
    var rows = [["UTC", "why", "program", "range", "status", "bytes", "time", "from"]]
    for request in requests {
        let range = request.range.map { $0.map { String($0) }.joined(separator: "-") } ?? "all"
        let status = request.status.map { String($0) } ?? "-"
        // The time of day in RFC 3339.
        let time = String(request.when.suffix(9).dropLast())
        let place = (request.from == "origin" ? "" : request.from + " ") + request.host
        rows.append([
            time, request.why, printable(request.program ?? "-"), range, status, humanSize(request.bytes),
            "\(request.milliseconds) ms", printable(request.failure ?? place),
        ])
    }
    return rows
}
