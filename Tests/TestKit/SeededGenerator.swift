/// SplitMix64, for random tests: the same seed, the same test. A test prints its seed when it fails.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    package let seed: UInt64
    private var state: UInt64

    package init(seed: UInt64 = .random(in: 0..<1 << 32)) {
        (self.seed, state) = (seed, seed)
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mixed(state)
    }

    /// Spreads neighbouring numbers over all bits.
    static func mixed(_ number: UInt64) -> UInt64 {
        var word = (number ^ (number >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
