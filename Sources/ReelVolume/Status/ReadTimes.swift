import ReelCore

/// How long the reads of a volume took, by where their bytes came from. One hit in `Counters.hitsPerTime` is timed, and
/// counts for all of them.
final class ReadTimes: Sendable {
    enum Answer: String, CaseIterable {
        /// Blocks that the disk does not take.
        case memory
        case disk
        /// The read waited for the source.
        case origin
        /// The read waited for a mirror.
        case mirror
        /// The read waited for the tier.
        case tier

        init(_ place: AnswerPlace) {
            switch place {
            case .origin: self = .origin
            case .mirror: self = .mirror
            case .tier: self = .tier
            }
        }
    }

    private let memory = Histogram()
    private let disk = Histogram()
    private let origin = Histogram()
    private let mirror = Histogram()
    private let tier = Histogram()

    subscript(answer: Answer) -> Histogram {
        switch answer {
        case .memory: memory
        case .disk: disk
        case .origin: origin
        case .mirror: mirror
        case .tier: tier
        }
    }

    /// A value for each answer.
    static func labelled<Value>(_ value: (Answer) -> Value) -> Labelled<Value> {
        Labelled(Answer.allCases.map { ($0.rawValue, value($0)) })
    }
}
