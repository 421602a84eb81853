import ReelCache
import ReelCore

extension Services {
    /// The date of the last confirmation of information that the origin has contradicted; such information is never
    /// fresh.
    static let doubted: Int64 = 0

    /// The origin contradicts the remembered information of a resource: the next open asks the origin again.
    func doubt(_ url: ResourceURL) {
        segments.forget(url)
        guard let known = store.information(for: url.text), known.checkedAt != Services.doubted else { return }
        store.remember(known.information, for: url.text, checkedAt: Services.doubted)
    }
}
