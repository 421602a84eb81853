import ReelCore

/// What a prefetch is asked for.
package struct PrefetchRequest: Sendable {
    /// Inside the mount, without a leading `/`; empty for all of it.
    package var paths: [String]
    /// Whether the files are pinned first.
    package var pins: Bool
    /// A limit of its own, nil for that of the mount alone.
    package var rate: RateSchedule?
    /// Whether it goes on without a client that watches it.
    package var isBackground: Bool
    /// A file of which nothing comes for so long is given up.
    package static let usualPatience = Duration.seconds(300)
    /// It ends once nothing could be had of any file for so long; never if nil.
    package var patience: Duration?

    package init(
        paths: [String], pins: Bool = false, rate: RateSchedule? = nil, isBackground: Bool = false,
        patience: Duration? = PrefetchRequest.usualPatience
    ) {
        (self.paths, self.pins, self.rate, self.isBackground) = (paths, pins, rate, isBackground)
        self.patience = patience
    }
}

/// One prefetch, as `reelfs status` shows it. Sizes are in bytes.
package struct PrefetchStatus: Codable, Sendable {
    /// How far a prefetch is.
    package enum Phase: String, Codable, CaseIterable, Sendable {
        /// It looks which files there are.
        case listing
        case fetching
        /// The mount is offline, or nothing comes: `error`, if the reason is known.
        case waiting
        /// All is there except for the files that failed.
        case done
        /// The cache cannot hold it: `refusal`.
        case refused
        /// It did not begin, or could not go on: `error`.
        case failed
        case cancelled
    }

    /// A file that was not fetched, or a folder that could not be listed.
    package struct Failure: Codable, Sendable, Hashable {
        /// Inside the mount, without a leading `/`.
        package var path: String
        /// Why, as a part of a sentence.
        package var reason: String
    }

    /// Why the cache cannot hold what is asked for.
    package struct Refusal: Codable, Sendable, Hashable {
        /// The files that are asked for.
        package var needed: Int64
        /// In other files, which are pinned.
        package var pinned: Int64
        /// What the cache holds of files, at most.
        package var cap: Int64
    }

    /// Names it for `cancel`; never used twice in the life of a mount.
    package var number: Int
    /// Inside the mount, without a leading `/`.
    package var paths: [String]
    package var phase = Phase.listing
    package var isBackground: Bool
    package var pins: Bool
    package var files = 0
    package var doneFiles = 0
    package var failedFiles = 0
    package var bytes: Int64 = 0
    /// The part of `bytes` that is in the cache.
    package var doneBytes: Int64 = 0
    /// Bytes a second, over the last seconds.
    package var rate: Int64 = 0
    /// The first hundred.
    package var failures: [Failure] = []
    package var refusal: Refusal?
    package var error: String?

    init(number: Int, _ request: PrefetchRequest) {
        (self.number, paths, isBackground, pins) = (number, request.paths, request.isBackground, request.pins)
    }

    /// Whether nothing comes after it.
    package var isOver: Bool {
        switch phase {
        case .listing, .fetching, .waiting: false
        case .done, .refused, .failed, .cancelled: true
        }
    }

    /// Without the failures, for a line that comes often.
    package var brief: PrefetchStatus {
        var brief = self
        brief.failures = []
        return brief
    }

    mutating func fail(_ path: String, _ reason: String) {
        failedFiles += 1
        if failures.count < 100 { failures.append(Failure(path: path, reason: reason)) }
    }
}
