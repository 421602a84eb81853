import TestKit

/// The words of a command line.
struct Options {
    private let words: [String]

    init(_ words: [String]) { self.words = words }

    func has(_ name: String) -> Bool { words.contains(name) }

    func text(_ name: String) -> String? {
        words.firstIndex(of: name).flatMap { $0 + 1 < words.count ? words[$0 + 1] : nil }
    }

    func number(_ name: String) -> UInt64? { text(name).flatMap { UInt64($0) } }

    func list(_ name: String) -> [String]? { text(name).map { $0.split(separator: ",").map { String($0) } } }
}

/// What a seed may do at most, so that less of it can be looked at; each is a word of the command line. All that is
/// left is chosen by the same chance as without limits, as far as it can be.
struct Limits: Sendable, Equatable {
    /// Parts that the world lacks.
    var without: Set<Shape.Part> = []
    /// What may happen to a request.
    var faults = Trouble.allCases
    var mounts = 3
    /// A number for one mount.
    var storms = 2
    var players = 4
    /// A number for one player in one storm.
    var acts = 12
    /// Changes of the origin, the bucket, the disk and the catalogue in one storm; restarts are among them.
    var changes = 3

    init(_ options: Options) {
        without = Set((options.list("--without") ?? []).compactMap { Shape.Part(rawValue: $0) })
        if let names = options.list("--faults") { faults = Trouble.allCases.filter { names.contains("\($0)") } }
        for (name, place) in Self.numbers {
            if let number = options.number("--" + name) { self[keyPath: place] = Int(number) }
        }
    }

    private nonisolated(unsafe) static let numbers: [(String, WritableKeyPath<Limits, Int>)] = [
        ("mounts", \.mounts), ("storms", \.storms), ("players", \.players), ("acts", \.acts), ("changes", \.changes),
    ]

    /// The words that `init` takes.
    var words: [String] {
        var words: [String] = []
        if !without.isEmpty { words += ["--without", without.map(\.rawValue).sorted().joined(separator: ",")] }
        if faults.count < Trouble.allCases.count {
            words += ["--faults", faults.map { "\($0)" }.joined(separator: ",")]
        }
        let all = Limits(Options([]))
        for (name, place) in Self.numbers where self[keyPath: place] != all[keyPath: place] {
            words += ["--" + name, "\(self[keyPath: place])"]
        }
        return words
    }

    /// Each with a little less in it, what takes most away first.
    var smaller: [Limits] {
        var smaller: [Limits] = []
        func add(_ change: (inout Limits) -> Void) {
            var limits = self
            change(&limits)
            if limits != self { smaller.append(limits) }
        }
        for part in Shape.Part.allCases { add { $0.without.insert(part) } }
        for (_, place) in Self.numbers {
            add { $0[keyPath: place] = min($0[keyPath: place], 1) }
            add { $0[keyPath: place] /= 2 }
            add { $0[keyPath: place] = max(0, $0[keyPath: place] - 1) }
        }
        if faults.count > 1 {
            add { $0.faults = Array($0.faults.prefix($0.faults.count / 2)) }
            add { $0.faults = Array($0.faults.suffix($0.faults.count / 2)) }
            if faults.count <= 8 { for fault in faults { add { $0.faults.removeAll { $0 == fault } } } }
        }
        return smaller
    }
}
