import TestKit

/// What a mount has beside its origin, and what happens to it.
struct Shape: CustomStringConvertible {
    enum Part: String, CaseIterable {
        case encrypted, mirror, tier, resolver, shared, catalogue, commands
        /// Another process takes the mount over while programs read.
        case restarts
        /// The process dies at some moment, and the next mount finds what it has written until then.
        case killed
        /// The same with the whole machine: what was not made durable may be lost.
        case powerLoss
        /// The disk below the cache is full or fails for a while.
        case disk
        /// Between two mounts bytes of the cache become others.
        case damage
    }

    let cap: Int64
    private let parts: Set<Part>

    /// - Parameter without: parts that it has in no case.
    init(_ random: inout SeededGenerator, without: Set<Part>) {
        cap = [4 << 20, 16 << 20, 64 << 20].randomElement(using: &random)!
        // What goes wrong only where three or four meet would be rare if each were.
        let share = [2, 4].randomElement(using: &random)!
        var parts: Set<Part> = []
        for part in Part.allCases where Int.random(in: 0..<share, using: &random) == 0 { parts.insert(part) }
        self.parts = parts.subtracting(without)
    }

    func has(_ part: Part) -> Bool { parts.contains(part) }

    var description: String {
        (["cap \(cap >> 20) MiB"] + Part.allCases.filter(parts.contains).map(\.rawValue)).joined(separator: ", ")
    }
}
