import ReelVolume

/// A mount as people read it: what it is, what it holds, then a line a file.
func statusText(_ status: MountStatus) -> String {
    var text = "\(printable(status.source)) on \(printable(status.mountpoint))"
    guard let volume = status.volume else { return text + "\n  no answer" }
    let reads = volume.hits &+ volume.misses
    text += " (pid \(status.pid))\n"
    text += "  cache   \(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))\n"
    if let failure = volume.cacheFailure {
        text += "  cache   cannot be written: \(failure) \(humanSize(volume.bytesInMemory)) in memory\n"
    }
    if volume.damagedBlocks > 0 { text += "  cache   \(volume.damagedBlocks) damaged blocks found and dropped\n" }
    text += "  origin  \(fetchedText(volume))\n"
    text += "  served  \(humanSize(volume.bytesServed))"
    if reads > 0 { text += ", \(percent(volume.hits, reads)) of \(reads) reads from the cache" }
    for outage in volume.outages { text += "\n  offline \(printable(outage.origin)) (\(outage.kind))" }
    if let first = volume.staleDirectories.first {
        let count = volume.staleDirectories.count
        let name = first.path.isEmpty ? "/" : first.path
        text +=
            "\n  stale   \(count) director\(count == 1 ? "y" : "ies"): \(printable(name)) (\(printable(first.trouble)))"
        if count > 1 { text += ", …" }
    }
    guard !volume.files.isEmpty else { return text }
    let head = ["cached", "of", "", "open", "rate", "file"]
    let rows = volume.files.map { file in
        [
            humanSize(file.cachedBytes), file.length.map { humanSize($0) } ?? "?",
            file.length.map { percent(file.cachedBytes, $0) } ?? "",
            file.openHandles > 0 ? String(file.openHandles) : "-",
            file.rate > 0 ? humanSize(file.rate) + "/s" : "-", printable(file.path),
        ]
    }
    return text + "\n\n" + table([head] + rows)
}

/// What was fetched, and what for, in the words that status and doctor share.
func fetchedText(_ volume: VolumeStatus) -> String {
    var text = "\(humanSize(volume.bytesFromOrigin)) fetched"
    guard volume.speculative > 0 else { return text }
    text += ": \(humanSize(volume.demanded)) demanded, \(humanSize(volume.speculative)) ahead"
    guard volume.wasted > 0 else { return text }
    return text + ", of which \(humanSize(volume.wasted)) wasted (\(percent(volume.wasted, volume.speculative)))"
}

/// 1024 to a step, three digits: `1.46 GiB`.
func humanSize(_ bytes: Int64) -> String {
    guard bytes >= 1024 else { return "\(bytes) B" }
    var value = Double(bytes)
    var unit = -1
    while value >= 1024, unit < 4 {
        value /= 1024
        unit += 1
    }
    let factor: Double = value < 10 ? 100 : value < 100 ? 10 : 1
    let rounded = (value * factor).rounded() / factor
    let digits = factor == 1 ? String(Int64(rounded)) : String(rounded)
    return digits + " " + ["KiB", "MiB", "GiB", "TiB", "PiB"][unit]
}

func percent(_ part: Int64, _ whole: Int64) -> String {
    guard whole > 0 else { return "100 %" }
    // Rounded down: 100 % means all of it.
    return "\(Int64(exactly: (Double(part) * 100 / Double(whole)).rounded(.down)) ?? 0) %"
}

/// Right-aligned columns, the last one left-aligned.
func table(_ rows: [[String]]) -> String {
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
        let cells = row.indices.map { column in
            column == row.count - 1
                ? row[column] : String(repeating: " ", count: widths[column] - row[column].count) + row[column]
        }
        return "  " + cells.joined(separator: "  ")
    }.joined(separator: "\n")
}
