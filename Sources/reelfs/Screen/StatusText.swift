import Glibc
import ReelCore
import ReelVolume

/// A mount for `reelfs status`: its totals, then a line a file.
/// - Parameter page: the address of its page with the token, nil if it is not shown.
func statusText(_ status: MountStatus, page: String? = nil) -> String {
    var text = "\(printable(status.source)) on \(printable(status.mountpoint))"
    guard let volume = status.volume else {
        return text + "\n  " + (status.mounter == nil ? "no answer" : status.error ?? "")
    }
    let reads = volume.hits &+ volume.misses
    text += " (pid \(status.pid))\n"
    if let verdict = volume.verdict {
        text += "  \(verdictText(verdict))\n"
        let step = nextStep(verdict, shown(status.mountpoint), isCommanded: volume.isOffline == true)
        if let step { text += "  next    \(step)\n" }
    }
    let others = (status.mountpoints ?? []).filter { $0 != status.mountpoint }
    if !others.isEmpty { text += "  shared  with \(others.map { printable($0) }.joined(separator: ", "))\n" }
    if let address = status.listening { text += "  listens \(printable(address))\n" }
    if let page { text += "  page    \(page)\n" }
    text += "  cache   \(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))\n"
    if volume.isEncrypted == true { text += "  cache   encrypted; no passthrough\n" }
    if let failure = volume.cacheFailure {
        text += "  cache   cannot be written: \(failure); \(humanSize(volume.bytesInMemory)) in memory\n"
    }
    if volume.damagedBlocks > 0 {
        text += "  cache   \(count(Int(volume.damagedBlocks), "damaged block")) found and dropped\n"
    }
    text += "  origin  \(fetchedText(volume))\n"
    text += "  served  \(humanSize(volume.bytesServed))"
    if reads > 0 { text += ", \(percent(volume.hits, reads)) of \(reads) reads from the cache" }
    if let stalls = stallsText(volume) { text += "\n  stalls  \(stalls)" }
    if let warming = volume.warming {
        text += "\n  warm    \(count(warming.folders, "folder")) listed" + (warming.isOver ? "" : " so far")
        if warming.failed > 0 { text += ", \(warming.failed) could not be" }
    }
    for outage in volume.outages { text += "\n  offline \(printable(outage.origin)) (\(outage.kind))" }
    for mirror in volume.mirrors ?? [] {
        let kind = mirror.isSource ? "source " : mirror.shared == nil ? "mirror " : "via    "
        text += "\n  \(kind) \(printable(mirror.origin)): \(humanSize(mirror.bytes)) fetched"
        if let shared = mirror.shared { text += sharedText(shared) }
        if mirror.isAvoided { text += ", failed or slow a moment ago" }
        if let last = mirror.lastLeftOut {
            text += ", left out for \(count(mirror.leftOut, "file")), the last \(printable(last))"
        }
    }
    if let tier = volume.tier { text += "\n  tier    \(tierText(tier))" }
    for source in volume.closedSources ?? [] {
        text += "\n  closed  \(printable(source.path)): \(printable(source.trouble ?? "it is being opened"))"
    }
    if volume.isOffline == true {
        text += "\n  offline by command: shows only what is cached whole (`reelfs offline off` ends it)"
    }
    if let only = status.onlyCached {
        let places = only.map { printable($0) }.joined(separator: ", ")
        text += "\n  only-cached on \(places): shows only what is cached whole"
    }
    if let limit = volume.limitRate, limit != "off" { text += "\n  limit   \(printable(limit))" }
    for prefetch in volume.prefetches ?? [] { text += "\n  prefetch \(prefetchText(prefetch))" }
    if let kept = volume.kept { text += "\n  kept    \(keptText(kept))" }
    if let stale = staleText(volume) {
        text += "\n  stale   \(stale.count): \(stale.first)" + (volume.staleDirectories.count > 1 ? ", …" : "")
    }
    guard !volume.files.isEmpty else { return text }
    let rows = volume.files.map { file in
        sizes(file.cachedBytes, file.length) + [
            file.openHandles > 0 ? String(file.openHandles) : "-", file.isPlayed == true ? "player" : "-",
            file.rate > 0 ? humanSize(file.rate) + "/s" : "-", printable(file.path),
        ]
    }
    text += "\n\n" + table([["cached", "of", "", "open", "read by", "rate", "file"]] + rows)
    let maps = volume.files.prefix(mostMaps).compactMap { mapText($0) }
    return maps.isEmpty ? text : text + "\n\n" + maps.joined(separator: "\n")
}

/// What is fetched whole before anybody opens it: how many files are there, and what is with the next one.
private func keptText(_ kept: [VolumeStatus.Kept]) -> String {
    if kept.isEmpty { return "nothing so far: no feed, and nothing was played through" }
    let whole = kept.count { $0.phase == .whole || $0.phase == .finished }
    var text = "\(whole) of \(count(kept.count, "file")) fetched whole"
    if let file = kept.first(where: { $0.phase == .fetching }) {
        text += ", now \(printable(file.path)), \(humanSize(file.cachedBytes))"
        if let length = file.length { text += " of \(humanSize(length))" }
    }
    if let file = kept.first(where: { $0.phase == .full }) { text += ", no room for \(printable(file.path))" }
    if let file = kept.first(where: { $0.trouble != nil }), let trouble = file.trouble {
        text += ", \(printable(file.path)) \(file.phase == .failed ? "failed" : "waits"): \(printable(trouble))"
    }
    return text
}

private func tierText(_ tier: VolumeStatus.Tier) -> String {
    var text = "\(printable(tier.name)): \(humanSize(tier.readBytes)) read, \(humanSize(tier.writtenBytes)) written"
    if tier.waitingBytes > 0 { text += ", \(humanSize(tier.waitingBytes)) to write" }
    if tier.leftOutBytes > 0 { text += ", \(humanSize(tier.leftOutBytes)) not written" }
    if tier.damagedObjects > 0 { text += ", \(count(Int(tier.damagedObjects), "damaged object")) ignored" }
    if let trouble = tier.trouble { return text + ": " + printable(trouble) }
    return text + (tier.isAvoided ? ", failed or slow a moment ago" : "")
}

/// What a shared cache says of its answers; empty where it says nothing.
private func sharedText(_ tally: SharedCache.Tally) -> String {
    var text = ""
    if tally.hits > 0 || tally.misses > 0 {
        text += ", \(count(Int(clamping: tally.hits), "hit")), \(tally.misses) missed"
    }
    if let age = tally.age { text += ", the last \(longTime(age)) old" }
    return text
}

/// A screen has no room for more.
private let mostMaps = 8

/// The parts of an open file as a bar, and how its reader fares; nil where it is not open.
private func mapText(_ file: VolumeStatus.File) -> String? {
    guard file.openHandles > 0, let bar = mapBar(file, width: 60) else { return nil }
    let words = [stateText(file), placeText(file), paceText(file, now: Int64(time(nil)))].compactMap { $0 }
    return "  \(printable(file.path))\n    \(bar)\n    " + words.joined(separator: ", ")
}

/// A mount for `reelfs status --programs`: a line a program.
func programsText(_ status: MountStatus) -> String {
    let text = "\(printable(status.source)) on \(printable(status.mountpoint))"
    guard let volume = status.volume else {
        return text + "\n  " + (status.mounter == nil ? "no answer" : status.error ?? "")
    }
    guard let programs = volume.programs, !programs.isEmpty else { return text + "\n  no program has read" }
    let rows = programs.map { program in
        [
            humanSize(program.readBytes), humanSize(program.fetchedBytes), String(program.files),
            printable(program.name),
        ]
    }
    return text + "\n\n" + table([["read", "fetched", "files", "program"]] + rows)
}

/// One source's part of a cache for `reelfs cache list`: its size, then a line a file.
func cacheText(_ status: CacheStatus) -> String {
    var text = printable(status.source ?? "unknown source")
    text += status.mountpoint.map { " on \(printable($0))" } ?? " (not mounted)"
    text += "\n  \(humanSize(status.used))" + (status.cap.map { " of \(humanSize($0))" } ?? "")
    guard !status.files.isEmpty else { return text }
    let rows = status.files.map { file in
        sizes(file.cachedBytes, file.length) + [
            file.lastUse.map { localTime($0 / 1000) } ?? "-", file.isPinned ? "yes" : "-",
            file.openHandles > 0 ? String(file.openHandles) : "-", printable(file.name),
        ]
    }
    return text + "\n\n" + table([["cached", "of", "", "last used", "pinned", "open", "file"]] + rows)
}

/// Cached bytes, length, and the one as a part of the other.
private func sizes(_ cached: Int64, _ length: Int64?) -> [String] {
    [humanSize(cached), length.map { humanSize($0) } ?? "?", length.map { percent(cached, $0) } ?? ""]
}

/// The result of `reelfs cache verify`. - Parameter isOffline: some of the damage was where no daemon could fetch.
func verifyText(_ report: MaintenanceReport, repairs: Bool, isOffline: Bool) -> String {
    var text = "\(humanSize(report.bytes)) in \(count(report.files, "file")) verified"
    guard report.damagedBlocks > 0 else { return text + ": no damage." }
    text += ": \(count(report.damagedBlocks, "damaged block")) in\n"
    text += report.damagedFiles.map { "  " + printable($0) }.joined(separator: "\n")
    guard repairs else {
        return text
            + "\nThe next read fetches \(report.damagedBlocks == 1 ? "it" : "them") again; --repair does it now."
    }
    if report.refetchedBlocks > 0 { text += "\n\(count(report.refetchedBlocks, "block")) fetched again." }
    let left = report.damagedBlocks &- report.refetchedBlocks
    guard left > 0 else { return text }
    text += "\n\(count(left, "block")) removed"
    if let failure = report.failure { text += ": \(failure)" } else if isOffline { text += ": not mounted" }
    return text + ". The next read fetches \(left == 1 ? "it" : "them")."
}

/// The fetched bytes and their reasons; shared by status and doctor.
func fetchedText(_ volume: VolumeStatus) -> String {
    var text = "\(humanSize(volume.bytesFromOrigin)) fetched"
    guard volume.speculative > 0 else { return text }
    text += ": \(humanSize(volume.demanded)) demanded, \(humanSize(volume.speculative)) ahead"
    guard volume.wasted > 0 else { return text }
    return text + ", of which \(humanSize(volume.wasted)) wasted (\(percent(volume.wasted, volume.speculative)))"
}

/// The directories whose listing could not be refreshed; shared by status and doctor. nil: none.
func staleText(_ volume: VolumeStatus) -> (count: String, first: String)? {
    guard let first = volume.staleDirectories.first else { return nil }
    let name = first.path.isEmpty ? "/" : first.path
    return (
        count(volume.staleDirectories.count, "directory", plural: "directories"),
        "\(printable(name)) (\(printable(first.trouble)))"
    )
}
