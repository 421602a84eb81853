import Glibc
import ReelVolume

/// One source's part of a cache as people read it.
func cacheText(_ status: CacheStatus) -> String {
    var text = printable(status.source ?? "a source that is not known")
    text += status.mountpoint.map { " on \(printable($0))" } ?? " (not mounted)"
    text += "\n  \(humanSize(status.used))" + (status.cap.map { " of \(humanSize($0))" } ?? "")
    guard !status.files.isEmpty else { return text }
    let head = ["cached", "of", "", "last used", "pinned", "open", "file"]
    let rows = status.files.map { file in
        [
            humanSize(file.cachedBytes), file.length.map { humanSize($0) } ?? "?",
            file.length.map { percent(file.cachedBytes, $0) } ?? "", file.lastUse.map { localTime($0 / 1000) } ?? "-",
            file.isPinned ? "yes" : "-", file.openHandles > 0 ? String(file.openHandles) : "-", printable(file.name),
        ]
    }
    return text + "\n\n" + table([head] + rows)
}

/// `2024-05-01 17:03`, in the caller's time zone.
private func localTime(_ seconds: Int64) -> String {
    var moment = time_t(seconds)
    var parts = tm()
    localtime_r(&moment, &parts)
    var bytes = [CChar](repeating: 0, count: 32)
    let count = strftime(&bytes, bytes.count, "%Y-%m-%d %H:%M", &parts)
    return String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
