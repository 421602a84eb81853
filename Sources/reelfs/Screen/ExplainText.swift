import ReelCore
import ReelVolume

/// A screen, with a line for the shell's prompt.
private let screen = (lines: 23, columns: 80)
private let mostSums = 6

/// A file's requests for `reelfs explain`, on a screen: what came of it, their sums, and as many of the last ones as
/// fit, the newest first.
func explanationText(_ told: Explanation) -> String {
    var lines = [headLine(told)]
    if let use = told.use {
        lines.append("  read: \(humanSize(use.read))")
        lines.append(
            "  fetched: \(humanSize(use.demanded)) demanded, \(humanSize(use.speculative)) ahead"
                + " (\(humanSize(use.unread)) unread, \(humanSize(use.wasted)) wasted)")
    }
    if told.requests.isEmpty {
        lines += ["", "No request in the last hours."]
    } else {
        lines += [""] + tableLines(sumRows(told.sums)) + [""]
        lines += requestLines(told, most: screen.lines - lines.count)
    }
    return lines.map { cut($0, to: screen.columns) }.joined(separator: "\n")
}

private func headLine(_ told: Explanation) -> String {
    // A folder, or a file of which nothing is known.
    if told.length == nil, told.cached == 0, told.use == nil { return printable(told.path.isEmpty ? "/" : told.path) }
    var state = ": \(humanSize(told.cached)) of \(told.length.map { humanSize($0) } ?? "?") cached"
    if told.openHandles > 0 { state += ", open \(count(told.openHandles, "time"))" }
    return cut(printable(told.path.isEmpty ? "/" : told.path), to: screen.columns - state.count) + state
}

/// The largest ones, and one of all others.
private func sumRows(_ sums: [Explanation.Sum]) -> [[String]] {
    let shown = sums.count > mostSums ? mostSums - 1 : sums.count
    var rows = [["why", "requests", "failed", "bytes", "program"]]
    for sum in sums.prefix(shown) {
        rows.append([sum.why] + numbers([sum]) + [printable(sum.program ?? "-")])
    }
    if shown < sums.count { rows.append(["others"] + numbers(sums.dropFirst(shown)) + ["-"]) }
    return rows
}

private func numbers(_ sums: some Sequence<Explanation.Sum>) -> [String] {
    let (requests, failed, bytes) = sums.reduce(into: (0, 0, 0 as Int64)) { all, sum in
        all = (all.0 &+ sum.requests, all.1 &+ sum.failed, all.2 &+ sum.bytes)
    }
    return [String(requests), failed > 0 ? String(failed) : "-", humanSize(bytes)]
}

/// A line a request, below a head. - Parameter most: lines.
private func requestLines(_ told: Explanation, most: Int) -> [String] {
    let all = told.sums.reduce(0) { $0 &+ $1.requests }
    let isRoom = all <= told.requests.count && told.requests.count < most
    let shown = told.requests.suffix(isRoom ? most - 1 : most - 2).reversed()
    // Requests for the pieces of a file say for which one.
    let hasPieces = Set(told.requests.map(\.file)).count > 1
    var rows = [["when", "why", "program", "at", "bytes", "time", "from"]]
    for request in shown {
        rows.append([
            localTimeOfDay(request.when), request.why, cut(printable(request.program ?? "-"), to: 12),
            request.range?.first.map { humanSize($0) } ?? "-", humanSize(request.bytes),
            shortTime(.milliseconds(request.milliseconds)), printable(place(of: request, hasPieces)),
        ])
    }
    return tableLines(rows) + (isRoom ? [] : ["  and \(count(all - shown.count, "request")) before these"])
}

/// Why it failed, or the place that answered.
private func place(of request: RequestRecord, _ isPiece: Bool) -> String {
    if let failure = request.failure { return failure }
    let host = request.host ?? ""
    let scheme = ["https://", "http://"].first { host.hasPrefix($0) } ?? ""
    let parts = [
        isPiece ? request.file.split(separator: "/").last.map { String($0) } : nil,
        request.from == "origin" ? nil : request.from, String(host.dropFirst(scheme.count)),
    ]
    return parts.compactMap { $0 }.joined(separator: " ")
}

private func tableLines(_ rows: [[String]]) -> [String] {
    table(rows).split(separator: "\n").map { String($0) }
}
