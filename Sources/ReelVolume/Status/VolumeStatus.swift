/// The state of one mount, for `reelfs status` and `/metrics`. Sizes are in bytes, rates in bytes a second.
///
/// JSON and the code see the members of `numbers` and `details` as its own.
@dynamicMemberLookup
package struct VolumeStatus: Sendable {
    package var numbers = VolumeNumbers()
    package var details = Details()

    package subscript<Value>(dynamicMember path: WritableKeyPath<VolumeNumbers, Value>) -> Value {
        get { numbers[keyPath: path] }
        set { numbers[keyPath: path] = newValue }
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<Details, Value>) -> Value {
        get { details[keyPath: path] }
        set { details[keyPath: path] = newValue }
    }

    /// One file of the mount.
    package struct File: Codable, Sendable {
        /// The path inside the mount, without a leading `/`.
        package var path: String
        /// The length; nil where it is not known yet.
        package var length: Int64?
        /// The bytes in the cache.
        package var cachedBytes: Int64
        /// The handles of programs.
        package var openHandles: Int
        /// The rate from the origin, over the last seconds.
        package var rate: Int64
        /// A player reads it, as its pace shows; a copy is none. nil if not reported.
        package var isPlayed: Bool?
        /// It never leaves the cache by itself, nil if not reported.
        package var isPinned: Bool?
        /// The program whose read last had to wait, nil if none had to, or it is not known.
        package var program: String?
        /// The map of an open file: a character for each of its parts, as `FileMap` has them, nil if not reported.
        package var map: String?
        /// The readers of an open file: the one active last first, nil if not reported.
        package var readers: [Reader]?
        /// The rate that a player needs to go on: of the film if its duration is known, else that at which it reads;
        /// nil if it is not known.
        package var neededRate: Int64?
        /// The duration of the film or the music, nil if not known.
        package var seconds: Double?
        /// For so long the read has waited that waits longest, in milliseconds, nil if none waits.
        package var waiting: Int64?
        /// Since the file was opened first: reads that kept a reader waiting, nil if not reported.
        package var stalls: Int?
        /// The last of them, nil if there was none.
        package var lastStall: Stall?
    }

    /// A place of a file at which a program reads forward.
    package struct Reader: Codable, Hashable, Sendable {
        /// The next byte.
        package var position: Int64
        /// Bytes in a row from there on that are cached.
        package var ahead: Int64
        /// The rate at which it reads, nil if not known yet.
        package var rate: Int64?
        /// It plays, or may: it goes before others.
        package var isPlayer: Bool
    }

    /// A read of a reader in a row that had to wait for long.
    package struct Stall: Codable, Hashable, Sendable {
        /// What took most of it: `origin`, `queue` (of requests, and of others on the line) or `disk`.
        package var fault: String
        package var milliseconds: Int64
        /// Seconds since 1970.
        package var when: Int64
    }

    /// Stalls since the mount began, by their fault.
    package struct Stalls: Codable, Hashable, Sendable {
        package var origin: Int64
        package var queue: Int64
        package var disk: Int64
    }

    /// An origin of which something was asked.
    package struct Origin: Codable, Hashable, Sendable {
        /// Scheme, host and port.
        package var origin: String
        /// `well`, `refused`, `wrong` (it answers as no server of files does, or with an error of its own), `slow` (it
        /// has too much to do), `doubtful` (it is silent), or the kind of its outage: `unreachable` or `silent`.
        package var health: String
        /// nil if it gives what it has, or is away.
        package var trouble: Trouble?
        /// From a request to the head of its answer, in milliseconds, smoothed over the last ones, nil if none came.
        package var firstByte: Int64?
        /// The rate at which it sends, over the last seconds.
        package var rate: Int64
        package var bytes: Int64
        package var requests: Int64
        /// Requests that failed by the fault of the origin.
        package var failed: Int64
    }

    /// Why an origin does not give what it has.
    package struct Trouble: Codable, Hashable, Sendable {
        /// `origin`, `login` or `command`.
        package var culprit: String
        /// The last failure, for a sentence.
        package var reason: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// Data that goes when the cache needs room.
    package struct Leaving: Codable, Hashable, Sendable {
        /// The path inside the mount, without a leading `/`.
        package var path: String
        package var bytes: Int64
        /// Seconds since 1970.
        package var lastUse: Int64
    }

    /// A file that is fetched whole before anybody opens it.
    package struct Kept: Codable, Hashable, Sendable {
        /// How far it is.
        package enum Phase: String, Codable, CaseIterable, Sendable {
            /// Others come first, the mount is offline, or the last attempt failed a short while ago.
            case waiting
            case fetching
            /// The cache has no room for it beside what is pinned, open, used a short while ago, or comes first.
            case full
            /// All of it came; some may have left the cache since.
            case whole
            /// All of it came, and was read to its end: it goes first.
            case finished
            /// It could not be had several times.
            case failed
        }

        /// The path inside the mount, without a leading `/`.
        package var path: String
        /// The length; nil where it is not known.
        package var length: Int64?
        /// The bytes in the cache.
        package var cachedBytes: Int64
        package var phase: Phase
        /// Why the last attempt failed, as a part of a sentence; nil if none has.
        package var trouble: String?
    }

    /// A program that opened files, or had to wait for bytes.
    package struct Program: Codable, Hashable, Sendable {
        /// The name as ps(1) shows it.
        package var name: String
        /// The files that it read.
        package var files: Int
        /// The bytes of these that it read, also those that were there.
        package var readBytes: Int64
        /// The bytes that came from the origin meanwhile.
        package var fetchedBytes: Int64

        static func += (sum: inout Program, part: Program) {
            sum.files += part.files
            sum.readBytes += part.readBytes
            sum.fetchedBytes += part.fetchedBytes
        }
    }

    /// An origin that is away.
    package struct Outage: Codable, Sendable {
        /// Scheme, host and port.
        package var origin: String
        /// The kind of outage: `unreachable` or `silent`.
        package var kind: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// A place of the source's tree: the source itself, a shared cache in front of it, or a mirror.
    package struct Mirror: Codable, Sendable {
        /// Whether it is the source itself.
        package var isSource: Bool
        /// Scheme, host and port.
        package var origin: String
        /// Bytes of all bodies.
        package var bytes: Int64
        /// Whether it failed or was too slow a moment ago, so that the others are asked before it.
        package var isAvoided: Bool
        /// The versions of files that it has otherwise, and that it is not asked for.
        package var leftOut: Int
        /// The last of them, and why, nil if none.
        package var lastLeftOut: String?
        /// What a shared cache says of its answers, nil if it is none.
        package var shared: SharedCache.Tally?
    }

    /// The bucket between disk and origin (`--tier`).
    package struct Tier: Codable, Sendable {
        /// The name as the user wrote it.
        package var name: String
        /// Bytes of files that came from it.
        package var readBytes: Int64
        /// Bytes of files that this mount has written into it.
        package var writtenBytes: Int64
        /// Bytes that wait to be written.
        package var waitingBytes: Int64
        /// Bytes that were not written, as too many waited, or it did not take them.
        package var leftOutBytes: Int64
        /// Whether it failed or was too slow a moment ago, so that the origin is asked in its place.
        package var isAvoided: Bool
        /// Objects that did not hold what they should.
        package var damagedObjects: Int64
        /// Why it takes or gives nothing; nil since it last did.
        package var trouble: String?

        static func += (sum: inout Tier, part: Tier) {
            sum.readBytes += part.readBytes
            sum.writtenBytes += part.writtenBytes
            sum.waitingBytes += part.waitingBytes
            sum.leftOutBytes += part.leftOutBytes
            sum.isAvoided = sum.isAvoided || part.isAvoided
            sum.damagedObjects += part.damagedObjects
            sum.trouble = sum.trouble ?? part.trouble
        }
    }

    /// A directory that shows its last good listing because no newer one could be fetched.
    package struct StaleDirectory: Codable, Sendable {
        /// The path inside the mount, without a leading `/`; empty for the root.
        package var path: String
        /// The trouble, as in `user.reelfs.stale`.
        package var trouble: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// The listing of the whole tree after the mount.
    package struct Warming: Codable, Sendable {
        /// The folders that are done.
        package var folders: Int
        /// The folders that could not be listed.
        package var failed: Int
        /// Whether none is left.
        package var isOver: Bool
    }

    /// A source of a catalogue that is not open, so that nothing of it is shown.
    package struct ClosedSource: Codable, Sendable {
        /// The path of its folder inside the mount.
        package var path: String
        /// Why, as a sentence, nil if the first attempt is under way.
        package var trouble: String?
        /// Seconds since 1970.
        package var since: Int64?
        /// The word of its verdict, nil where it is away; and whose fault it is.
        package var word: String?
        package var culprit: String?
    }

    /// All but the numbers.
    package struct Details: Codable, Sendable {
        /// What the rest means for whoever reads; nil if not reported.
        package var verdict: Verdict?
        /// Why the cache's disk takes nothing at present; nil if it does.
        package var cacheFailure: String?
        /// Whether the cache is encrypted; nil if not reported.
        package var isEncrypted: Bool?
        /// Origins that are away.
        package var outages: [Outage] = []
        /// The source, its shared cache and its mirrors; nil if it has neither of these.
        package var mirrors: [Mirror]?
        /// nil if there is none.
        package var tier: Tier?
        /// The programs for which bytes were fetched, those first for which most were; nil if not reported.
        package var programs: [Program]?
        /// Directories that show an old listing; at most some hundreds.
        package var staleDirectories: [StaleDirectory] = []
        /// nil if it was not asked for.
        package var warming: Warming?
        /// Sources of a catalogue that are not open; nil if all are, or the mount is of one source.
        package var closedSources: [ClosedSource]?
        /// Stalls since the mount began; nil if not reported.
        package var stalls: Stalls?
        /// Origins of which something was asked, the last asked first; nil if not reported.
        package var origins: [Origin]?
        /// The files whose data goes next when the cache is full, the first to go first; nil if not reported.
        package var leaving: [Leaving]?
        /// Whether the user wants nothing to be asked for; nil if not reported.
        package var isOffline: Bool?
        /// The limit of the rate, as `--limit-rate` takes it; nil if not reported.
        package var limitRate: String?
        /// Prefetches, those that run and the last ones; nil if not reported.
        package var prefetches: [PrefetchStatus]?
        /// Files that are fetched whole before anybody opens them, in the order in which they are fetched; at most a
        /// hundred, nil if the mount keeps none.
        package var kept: [Kept]?
        /// Open files first, then those with cached bytes, by path; at most some hundreds.
        package var files: [File] = []
    }
}

extension VolumeStatus: Codable {
    package init(from decoder: any Decoder) throws {
        self.init(numbers: try VolumeNumbers(from: decoder), details: try Details(from: decoder))
    }

    package func encode(to encoder: any Encoder) throws {
        try numbers.encode(to: encoder)
        try details.encode(to: encoder)
    }
}
