import ReelCore
import ReelVolume

/// What `reelfs top` shows at one moment, as lines of a terminal.
struct TopScreen {
    /// A file that can be chosen.
    struct Choice: Hashable {
        var mountpoint: String
        var path: String
        var isPinned: Bool
        var isOpen = false
    }

    var mounts: [MountStatus]
    var chosen = 0
    var columns: Int
    /// nil: all lines.
    var rows: Int?
    var hasColour = false
    /// The outcome of the last key.
    var message: String?
    /// Seconds since 1970.
    var now: Int64

    /// The files in the order in which they stand on the screen.
    var choices: [Choice] {
        mounts.flatMap { mount in
            files(of: mount).map {
                Choice(
                    mountpoint: mount.mountpoint, path: $0.path, isPinned: $0.isPinned ?? false,
                    isOpen: $0.openHandles > 0)
            }
        }
    }

    private func files(of mount: MountStatus) -> [VolumeStatus.File] {
        let files = mount.volume?.files ?? []
        return files.filter { $0.openHandles > 0 && $0.isPlayed == true }
            + files.filter { $0.openHandles > 0 && $0.isPlayed != true } + files.filter { $0.openHandles == 0 }
    }

    private enum Style: String {
        case plain = ""
        case bold = "\u{1B}[1m"
        case dim = "\u{1B}[2m"
        case alarm = "\u{1B}[31m"
        case chosen = "\u{1B}[7m"
    }

    private struct Line {
        var text: String
        var style = Style.plain
        /// The choice of a file's first line: its number among the choices.
        var choice: Int?
    }

    /// Each no wider than the terminal; as many as it has rows, the chosen file among them.
    var lines: [String] {
        let (body, heads) = (body, 1)
        guard let rows else { return body.map { shown($0) } + [message].compactMap { $0 } }
        let room = max(0, rows - heads)
        let place = body.firstIndex { $0.choice == chosen } ?? 0
        // Its bar as well.
        let first = min(place, max(0, min(place + 3 - room, body.count - room)))
        let part = body.dropFirst(first).prefix(room).map { shown($0) }
        let empty = Array(repeating: "", count: max(0, room - part.count))
        return part + empty + (rows > 0 ? [shown(foot)] : [])
    }

    private var foot: Line {
        if let message { return Line(text: message, style: .bold) }
        return Line(text: "q quit  j/k choose  p prefetch  P pin  e evict  r refresh  o offline  ? keys", style: .dim)
    }

    private var body: [Line] {
        var lines: [Line] = []
        var number = 0
        for mount in mounts {
            lines.append(Line(text: "\(printable(mount.source)) on \(printable(mount.mountpoint))", style: .bold))
            guard let volume = mount.volume else {
                lines.append(Line(text: "  \(printable(mount.error ?? "no answer"))", style: .alarm))
                continue
            }
            lines += facts(volume, mount.onlyCached ?? [])
            for file in files(of: mount) {
                lines += self.lines(of: file, number)
                number += 1
            }
        }
        return lines.isEmpty ? [Line(text: "Nothing is mounted.")] : lines
    }

    private func facts(_ volume: VolumeStatus, _ onlyCached: [String]) -> [Line] {
        let used = MaintenanceProgress(done: volume.cacheUsed, total: volume.cacheCap)
        let sizes = "\(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))"
        var lines: [Line] = []
        if let verdict = volume.verdict {
            lines.append(Line(text: "  \(verdictText(verdict))", style: verdict.word == .well ? .plain : .alarm))
        }
        if volume.isOffline == true { lines.append(Line(text: "  offline  by command", style: .alarm)) }
        for place in onlyCached { lines.append(Line(text: "  only-cached on \(printable(place))", style: .alarm)) }
        lines.append(Line(text: "  cache    \(ProgressBar.bar(used, width: 20)) \(sizes)"))
        if let failure = volume.cacheFailure {
            lines.append(Line(text: "  cache    cannot be written: \(printable(failure))", style: .alarm))
        }
        for origin in (volume.origins ?? []).prefix(4) {
            let style = origin.health == "well" ? Style.plain : .alarm
            lines.append(Line(text: "  origin   \(originText(origin))", style: style))
        }
        if let stalls = stallsText(volume) { lines.append(Line(text: "  stalls   \(stalls)")) }
        if let programs = volume.programs, !programs.isEmpty {
            let texts = programs.prefix(4).map { "\(printable($0.name)) \(humanSize($0.fetchedBytes))" }
            lines.append(Line(text: "  fetched  for \(texts.joined(separator: ", "))"))
        }
        for prefetch in (volume.prefetches ?? []).prefix(3) {
            lines.append(Line(text: "  prefetch \(prefetchText(prefetch))"))
        }
        if let next = volume.leaving?.first {
            lines.append(Line(text: "  next     \(printable(next.path)) goes first", style: .dim))
        }
        return lines
    }

    private func lines(of file: VolumeStatus.File, _ number: Int) -> [Line] {
        let mark = number == chosen ? "> " : "  "
        let cached = file.length.map { percent(file.cachedBytes, $0) } ?? humanSize(file.cachedBytes)
        let head = "\(mark)\(printable(file.path))  \(cached)\(file.isPinned == true ? ", pinned" : "")"
        guard file.openHandles > 0 else {
            return [Line(text: head, style: number == chosen ? .chosen : .dim, choice: number)]
        }
        let isWaiting = (file.waiting ?? 0) >= 1000
        var lines = [
            Line(text: "\(head)  \(stateText(file))", style: number == chosen ? .chosen : .plain, choice: number)
        ]
        if let bar = mapBar(file, width: max(10, min(FileMap.cells, columns - 6))) {
            lines.append(Line(text: "    " + bar))
        }
        let words = [placeText(file), paceText(file, now: now)].compactMap { $0 }.joined(separator: ", ")
        if !words.isEmpty { lines.append(Line(text: "    " + words, style: isWaiting ? .alarm : .plain)) }
        return lines
    }

    private func shown(_ line: Line) -> String {
        let text = cut(line.text, to: columns)
        return hasColour && line.style != .plain ? line.style.rawValue + text + "\u{1B}[0m" : text
    }
}

/// The beginning of a text that takes no more columns of a terminal; it ends in `…` where something is left out.
func cut(_ text: String, to columns: Int) -> String {
    var (width, end) = (0, text.startIndex)
    for index in text.indices {
        let next = width + columnCount(text[index])
        if next > columns { return String(text[..<end]) + (columns > 0 ? "…" : "") }
        // Where the last column holds the mark.
        if next <= columns - 1 { end = text.index(after: index) }
        width = next
    }
    return text
}

/// Columns that a terminal gives a character (Unicode Standard Annex 11): two for East Asian and for pictures.
private func columnCount(_ character: Character) -> Int {
    guard let scalar = character.unicodeScalars.first else { return 0 }
    switch scalar.value {
    case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
        0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
        return 2
    default: return 1
    }
}
