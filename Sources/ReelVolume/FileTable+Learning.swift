import ReelCache
import ReelCore
import ReelThreads

/// Learns from answers about known versions.
extension FileTable {
    /// Remembers content information that the origin has just told.
    /// - Returns: the content information from here on. A confirmed version keeps its first validator: a weak tag may
    ///   have become strong, and another server may tell another date of it.
    func learn(_ new: ContentInformation, of url: ResourceURL) -> ContentInformation {
        var new = new
        if let known = services.store.information(for: url.text)?.information, known.length != nil {
            if new.isSameVersion(as: known) {
                new.validator = known.validator
                // One odd answer from one of several servers has ended nothing for the readers that have it open.
                file(for: version(url, new))?.revive()
            } else {
                retire(version(url, known))
            }
        }
        services.store.remember(new, for: url.text, checkedAt: wallClock())
        return new
    }

    private func version(_ url: ResourceURL, _ information: ContentInformation) -> Version {
        Version(key: url.text, validator: information.validator, length: information.length ?? 0)
    }

    /// Retires an older version: its open handles read the bytes that are there, then it goes.
    private func retire(_ version: Version) {
        if let file = file(for: version) { file.supersede() } else { services.store.forget(version) }
    }
}
