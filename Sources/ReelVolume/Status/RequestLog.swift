import Logging
import ReelCore
import ReelThreads

/// One request as it ended, without secrets: what `--request-log` writes, and `reelfs explain` shows.
package struct RequestRecord: Codable, Hashable, Sendable {
    /// When it was made, as RFC 3339 writes it.
    package var when: String
    /// The URL as the source lists it, without its query.
    package var file: String
    /// The first and the last byte that it asked for, nil for all.
    package var range: [Int64]?
    /// One of `OriginRequest.Reason`.
    package var why: String
    /// The program whose read or open led to it, as far as it is known.
    package var program: String?
    /// One of `AnswerPlace`; `via`: a shared cache; `cache`: that of the mount, without a request (``CacheReads``).
    package var from = "origin"
    /// Scheme, host and port of the place that was asked, nil for the cache.
    package var host: String?
    /// The status of the answer; nil where none came.
    package var status: Int?
    /// The bytes of the body, as far as it came.
    package var bytes: Int64
    /// From the request to the end of its answer, its wait for a connection included.
    package var milliseconds: Int64
    /// Why it failed, nil if it did not, or was let go of.
    package var failure: String?
}

/// What was noted of files in the last hours, in bounded memory.
private struct RecentEntries<Value> {
    private struct Entry {
        let url: ResourceURL
        let value: Value
        let end: Duration
    }

    /// A few hundred bytes each.
    private static var most: Int { 4000 }
    private static var longest: Duration { .seconds(6 * 3600) }

    private var entries: [Entry] = []

    mutating func add(_ value: Value, of url: ResourceURL) {
        entries.append(Entry(url: url.with(credentials: nil), value: value, end: now()))
        // An eighth at once.
        if entries.count > Self.most { entries.removeFirst(Self.most / 8) }
    }

    /// The records of one file, the oldest first.
    subscript(url: ResourceURL) -> [Value] {
        let start = now() - Self.longest
        return entries.filter { $0.end > start && $0.url == url }.map(\.value)
    }
}

/// The requests of the last hours and what came of them, in memory, and the way of each into the user's log.
final class RequestLog: Sendable {
    /// Lines that wait for the disk of the user's log; further ones are left out.
    private static let mostLines = 1000

    private struct State {
        var requests = RecentEntries<RequestRecord>()
        var uses = RecentEntries<FileUse>()
        /// Lines.
        var waiting = 0
        var leftOut = 0
    }

    private let state = Lock(State())
    private let logger: Logger
    private let write: (@Sendable (RequestRecord) -> Void)?
    /// A thread of its own, as the disk of the user's log may hang; nil if the user wants no log.
    private let queue: SerialQueue?

    /// - Parameter write: writes a line into the user's log, and may wait for its disk; nil if the user wants none.
    init(_ write: (@Sendable (RequestRecord) -> Void)?, _ logger: Logger) {
        self.write = write
        self.logger = logger
        queue = write == nil ? nil : SerialQueue("request-log")
    }

    /// Writes the lines that wait, unless the disk hangs, and ends the thread.
    func stop() { queue?.stop(atMost: .seconds(2)) }

    /// Whether the user wants a log.
    var isWritten: Bool { write != nil }

    /// Keeps a request in mind, and writes it. - Parameter url: as the source lists the file.
    func add(_ record: RequestRecord, of url: ResourceURL) {
        state.withLock { $0.requests.add(record, of: url) }
        write(record)
    }

    /// Writes a line into the user's log.
    func write(_ record: RequestRecord) {
        guard let write, let queue else { return }
        let hasRoom = state.withLock { state in
            let hasRoom = state.waiting < Self.mostLines
            if hasRoom { state.waiting += 1 } else { state.leftOut += 1 }
            return hasRoom
        }
        guard hasRoom else { return }
        queue.add { [self] in
            write(record)
            let count = state.withLock { state in
                state.waiting -= 1
                defer { state.leftOut = 0 }
                return state.leftOut
            }
            if count > 0 { logger.warning("the request log lacks \(count) requests: its disk did not keep up") }
        }
    }

    /// Keeps in mind what came of a file that is not in use any more.
    func add(_ use: FileUse, of url: ResourceURL) {
        if use != FileUse() { state.withLock { $0.uses.add(use, of: url) } }
    }

    /// The requests for a file, the oldest first.
    func records(of url: ResourceURL) -> [RequestRecord] { state.withLock { $0.requests[url] } }

    /// What came of a file each time that it was in use.
    func uses(of url: ResourceURL) -> [FileUse] { state.withLock { $0.uses[url] } }
}
