import ReelVolume

/// A mount for `reelfs status`: its totals, then a line a file.
func statusText(_ status: MountStatus) -> String {
    var text = "\(printable(status.source)) on \(printable(status.mountpoint))"
    guard let volume = status.volume else { return text + "\n  no answer" }
    let reads = volume.hits &+ volume.misses
    text += " (pid \(status.pid))\n"
    text += "  cache   \(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))\n"
    if volume.isEncrypted == true { text += "  cache   encrypted; no passthrough\n" }
    if let failure = volume.cacheFailure {
        text += "  cache   cannot be written: \(failure) \(humanSize(volume.bytesInMemory)) in memory\n"
    }
    if volume.damagedBlocks > 0 { text += "  cache   \(volume.damagedBlocks) damaged blocks found and dropped\n" }
    text += "  origin  \(fetchedText(volume))\n"
    text += "  served  \(humanSize(volume.bytesServed))"
    if reads > 0 { text += ", \(percent(volume.hits, reads)) of \(reads) reads from the cache" }
    for outage in volume.outages { text += "\n  offline \(printable(outage.origin)) (\(outage.kind))" }
    for source in volume.closedSources ?? [] {
        text += "\n  closed  \(printable(source.path)): \(printable(source.trouble ?? "it is being opened"))"
    }
    if let stale = staleText(volume) {
        text += "\n  stale   \(stale.count): \(stale.first)" + (volume.staleDirectories.count > 1 ? ", …" : "")
    }
    guard !volume.files.isEmpty else { return text }
    let rows = volume.files.map { file in
        sizes(file.cachedBytes, file.length) + [
            file.openHandles > 0 ? String(file.openHandles) : "-", file.rate > 0 ? humanSize(file.rate) + "/s" : "-",
            printable(file.path),
        ]
    }
    return text + "\n\n" + table([["cached", "of", "", "open", "rate", "file"]] + rows)
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
    guard repairs else { return text + "\nThe next read fetches them again; --repair does it now." }
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
