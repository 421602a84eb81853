import ReelCore
import ReelVolume

// The words for an open file that `status` and `top` share. They come from a daemon, and may be absurd.

/// The parts of a file as a bar, `[###>>..|..]`: a reader stands at `|`. nil where the map is not known.
/// - Parameter width: characters between the brackets.
func mapBar(_ file: VolumeStatus.File, width: Int) -> String? {
    guard let map = file.map, map.utf8.count == FileMap.cells, width > 0 else { return nil }
    let cells = map.compactMap { FileMap.Cell(rawValue: $0) }
    guard cells.count == FileMap.cells else { return nil }
    var bar = (0..<width).map { place in
        let first = place * cells.count / width
        return joined(cells[first..<max(first + 1, (place + 1) * cells.count / width)]).rawValue
    }
    for reader in file.readers ?? [] {
        let cell = FileMap.cell(at: reader.position, length: file.length ?? 0)
        bar[min(width - 1, cell * width / FileMap.cells)] = "|"
    }
    return "[" + String(bar) + "]"
}

/// Several cells as one.
private func joined(_ cells: ArraySlice<FileMap.Cell>) -> FileMap.Cell {
    if cells.contains(.coming) { return .coming }
    guard let first = cells.first, cells.allSatisfy({ $0 == first }) else { return .partial }
    return first
}

/// The reader that matters: a player, else the one active last.
func reader(of file: VolumeStatus.File) -> VolumeStatus.Reader? {
    file.readers?.first { $0.isPlayer } ?? file.readers?.first
}

/// Seconds of film that bytes of it last; nil if they are not known.
func seconds(_ bytes: Int64, of file: VolumeStatus.File) -> Double? {
    if let seconds = file.seconds, let length = file.length, length > 0, seconds.isFinite {
        return Double(bytes) / Double(length) * min(max(0, seconds), 1e9)
    }
    return file.neededRate.flatMap { $0 > 0 ? Double(bytes) / Double($0) : nil }
}

/// `mpv waits 1.2 s`, `mpv plays`, `ffprobe reads`, `open`.
func stateText(_ file: VolumeStatus.File) -> String {
    let state =
        if let waiting = file.waiting, waiting >= 1000 {
            "waits " + shortTime(.milliseconds(waiting))
        } else if file.isPlayed == true {
            "plays"
        } else {
            file.rate > 0 ? "reads" : "open"
        }
    guard let program = file.program else { return state == "plays" ? "a player plays" : state }
    return state == "open" ? "open by \(printable(program))" : "\(printable(program)) \(state)"
}

/// `read up to 23:10 of 1:42:00, 8m ahead`: in bytes if the time is not known; nil if nobody reads. Where the picture
/// is only the player knows, which keeps a buffer of its own.
func placeText(_ file: VolumeStatus.File) -> String? {
    guard let reader = reader(of: file) else { return nil }
    var text: String
    if let place = seconds(reader.position, of: file), let length = file.length, let all = seconds(length, of: file) {
        text = "read up to " + (file.seconds == nil ? "about " : "") + "\(clockTime(place)) of \(clockTime(all))"
    } else {
        text = "read up to \(humanSize(reader.position))" + (file.length.map { " of " + humanSize($0) } ?? "")
    }
    if let length = file.length, reader.position &+ reader.ahead >= length { return text + ", cached to its end" }
    text += ", " + (seconds(reader.ahead, of: file).map { longTime(Int64(min($0, 1e9))) } ?? humanSize(reader.ahead))
    return text + " ahead"
}

/// `reads 2.1 MiB/s, needs 2.1 MiB/s, last stall 1.2 s by the origin 40s ago`.
/// - Parameter now: seconds since 1970.
func paceText(_ file: VolumeStatus.File, now: Int64) -> String? {
    var parts: [String] = []
    if let rate = reader(of: file)?.rate { parts.append("reads \(humanSize(rate))/s") }
    if let rate = file.neededRate { parts.append("needs \(humanSize(rate))/s") }
    if let stall = file.lastStall {
        let ago = longTime(max(0, now &- stall.when))
        let length = shortTime(.milliseconds(min(max(0, stall.milliseconds), 1 << 40)))
        parts.append("last stall \(length) by the \(printable(stall.fault)) \(ago) ago")
    }
    return parts.isEmpty ? nil : parts.joined(separator: ", ")
}

/// `http://host: the origin answers 401, since 18:20`.
func verdictText(_ verdict: Verdict) -> String {
    printable(verdict.sentence) + (verdict.since.map { ", since \(localTime($0))" } ?? "")
}

/// What a person can do about a verdict; nil if there is nothing to do.
/// - Parameter isCommanded: `reelfs offline on` keeps it from asking, and not the option --only-cached.
func nextStep(_ verdict: Verdict, _ mountpoint: String, isCommanded: Bool) -> String? {
    switch (verdict.word, verdict.culprit) {
    case (.well, _): nil
    case (.away, _): "the mount goes on by itself once it answers"
    case (.offline, _) where isCommanded: "`reelfs offline off \(mountpoint)` ends it"
    case (.offline, _): "mount it without --only-cached to end it"
    case (.disk, _), (_, "disk"): "free space on the disk of the cache, or repair it"
    case (_, "command"): "run that command yourself, as the user who mounts"
    case (_, "line"): "`reelfs limit-rate off \(mountpoint)` lifts the limit"
    default: "`reelfs doctor \(mountpoint)` looks into it"
    }
}

/// `http://host: well, first byte 12 ms, 5.0 MiB/s`.
func originText(_ origin: VolumeStatus.Origin) -> String {
    var text = "\(printable(origin.origin)): \(printable(origin.health))"
    if let time = origin.firstByte { text += ", first byte " + shortTime(.milliseconds(min(max(0, time), 1 << 40))) }
    if origin.rate > 0 { text += ", \(humanSize(origin.rate))/s" }
    if origin.failed > 0 { text += ", \(origin.failed) of \(count(Int(clamping: origin.requests), "request")) failed" }
    return text
}

/// `3 stalls: 2 origin, 1 queue`; nil where there were none.
func stallsText(_ volume: VolumeStatus) -> String? {
    guard let stalls = volume.stalls else { return nil }
    let all = [("origin", stalls.origin), ("queue", stalls.queue), ("disk", stalls.disk)].filter { $0.1 > 0 }
    guard !all.isEmpty else { return nil }
    return all.map { "\($0.1) by the \($0.0)" }.joined(separator: ", ")
}

/// `1:42:07`, `3:05`.
func clockTime(_ seconds: Double) -> String {
    let all = Int64(min(max(0, seconds), 1e9))
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let (hours, minutes) = (all / 3600, all / 60 % 60)
    return (hours > 0 ? "\(hours):\(two(minutes))" : "\(minutes)") + ":" + two(all % 60)
}
