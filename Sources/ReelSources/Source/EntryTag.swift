import ReelCore

/// Shows whether an entry of a newer listing is of the same version: a hash of its entity tag, as the tags themselves
/// of a hundred thousand entries would take more memory than all else.
///
/// Weak or strong does not matter, nor do quotes. The hash is Swift's own, so a tag means nothing in another process.
package struct EntryTag: Hashable, Sendable {
    /// With the flag of an optional it takes eight bytes.
    private let hash: UInt32

    /// nil if the text is no entity tag.
    /// - Parameter text: as the source sends it.
    init?(_ text: ArraySlice<UInt8>) {
        guard let tag = EntityTag(text) else { return nil }
        var hasher = Hasher()
        hasher.combine(tag.opaque)
        hash = UInt32(truncatingIfNeeded: hasher.finalize())
    }
}
