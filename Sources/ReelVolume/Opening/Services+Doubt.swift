import ReelCache
import ReelCore

extension Services {
    /// The date of the last confirmation of information that the origin has contradicted; such information is never
    /// fresh.
    static let doubted: Int64 = 0
    /// The same where its length is sure: "not changed" confirms it.
    static let outdated: Int64 = 1

    /// The origin contradicts the remembered information of a resource: the next open asks the origin again.
    /// - Parameter length: false where the length was not contradicted.
    func doubt(_ url: ResourceURL, length: Bool = true) {
        segments.forget(url)
        let mark = length ? Services.doubted : Services.outdated
        guard let known = store.information(for: url.text), known.checkedAt > mark else { return }
        store.remember(known.information, for: url.text, checkedAt: mark)
    }
}

extension StoredInformation {
    var isDoubted: Bool { checkedAt <= Services.outdated }
}
