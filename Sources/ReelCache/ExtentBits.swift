import ReelCore

/// A set of blocks, as one word an extent that has any.
struct ExtentBits: Sendable {
    private(set) var words: [Int: UInt64] = [:]

    /// The word of an extent.
    subscript(extent: Int) -> UInt64 {
        get { words[extent] ?? 0 }
        set { words[extent] = newValue == 0 ? nil : newValue }
    }

    func contains(_ block: Int) -> Bool { self[block / 64] & ExtentBits.bit(block) != 0 }

    /// The place of a block in its extent's word.
    static func bit(_ block: Int) -> UInt64 { 1 << UInt64(block % 64) }
}
