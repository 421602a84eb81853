import ReelCore
import ReelThreads
import Synchronization

/// One request as it ended, without secrets: what `--request-log` writes, and `reelfs explain` shows.
package struct RequestRecord: Codable, Hashable, Sendable {
    /// When it was made, as RFC 3339 writes it.
    package var when: String
    /// The URL as the source lists it, without its query.
    package var file: String
    /// The first and the last byte that it asked for; nil: all.
    package var range: [Int64]?
    /// As `OriginRequest.Reason`.
    package var why: String
    /// The program whose read or open led to it, as far as it is known.
    package var program: String?
    /// As `AnswerPlace`, or `via`: a shared cache.
    package var from = "origin"
    /// Scheme, host and port of the place that was asked.
    package var host: String
    /// Of the answer; nil where none came.
    package var status: Int?
    /// Of the body, as far as it came.
    package var bytes: Int64
    /// From the request to the end of its answer, its wait for a connection included.
    package var milliseconds: Int64
    /// Why it failed; nil: it did not, or was let go of.
    package var failure: String?
}

/// The requests of the last hours, in memory, and the way of each into the user's log.
final class RequestLog: Sendable {
    private struct Entry {
        let url: ResourceURL
        let record: RequestRecord
        let end: Duration
    }

    /// A few hundred bytes each.
    private static let mostEntries = 4000
    private static let longest = Duration.seconds(6 * 3600)
    /// Lines that wait for the disk of the user's log; further ones are left out.
    private static let mostLines = 1000

    private let entries = Mutex<[Entry]>([])
    private let waiting = Atomic(0)
    private let write: (@Sendable (RequestRecord) -> Void)?

    init(_ write: (@Sendable (RequestRecord) -> Void)?) { self.write = write }

    /// - Parameter queue: on which lines are written, as the disk may be slow.
    func add(_ record: RequestRecord, of url: ResourceURL, _ queue: SerialQueue) {
        let moment = now()
        entries.withLock { entries in
            entries.append(Entry(url: url.with(credentials: nil), record: record, end: moment))
            // An eighth at once.
            if entries.count > Self.mostEntries { entries.removeFirst(Self.mostEntries / 8) }
        }
        guard let write else { return }
        guard waiting.add(1, ordering: .relaxed).newValue <= Self.mostLines else {
            waiting.subtract(1, ordering: .relaxed)
            return
        }
        let isTaken = queue.add { [self] in
            write(record)
            waiting.subtract(1, ordering: .relaxed)
        }
        if !isTaken { waiting.subtract(1, ordering: .relaxed) }
    }

    /// The requests for a URL, the oldest first.
    func records(of url: ResourceURL) -> [RequestRecord] {
        let start = now() - Self.longest
        return entries.withLock { entries in entries.filter { $0.end > start && $0.url == url }.map(\.record) }
    }
}

/// What was fetched of a file, and why: the answer to `reelfs explain`. Lengths are in bytes.
package struct Explanation: Codable, Sendable {
    /// Inside the mount, without a leading `/`.
    package var path: String
    /// nil where it is not known.
    package var length: Int64?
    package var cached: Int64
    package var openHandles: Int
    /// Of an open file, since its first open: for which a read waited, fetched ahead, and of these not read yet and
    /// wasted.
    package var demanded: Int64?
    package var speculative: Int64?
    package var unread: Int64?
    package var wasted: Int64?
    /// The last requests, the oldest first; at most ``mostRequests``.
    package var requests: [RequestRecord]
    /// Of the last hours, before those too.
    package var sums: [Sum]

    /// All requests with one reason for one program.
    package struct Sum: Codable, Sendable {
        package var why: String
        package var program: String?
        package var requests: Int
        package var failed: Int
        package var bytes: Int64
    }

    /// A screen has no room for more.
    package static let mostRequests = 30
}

extension Maintenance {
    /// Tells from memory what was fetched of a file, or for the listing of a directory.
    /// - Parameter path: inside the mount, without a leading `/`.
    /// - Throws: a sentence for the user: the path is not listed.
    package func explain(_ path: String) throws(MaintenanceFailure) -> Explanation {
        let (place, entry) = try tree.place(of: path)
        guard let url = entry?.url ?? place.url else {
            throw MaintenanceFailure("\(path.isEmpty ? "the list" : path) is a local file, which no request asks for")
        }
        let records = services.requests.records(of: url)
        let file = files.all.first { $0.url == url }
        let length =
            file.flatMap { $0.isOpenEnded ? nil : $0.length }
            ?? services.store.information(for: url.text)?.information.length ?? entry?.length
        let statistics = file?.statistics
        return Explanation(
            path: path, length: length,
            cached: file?.cachedBytes ?? (entry.map { services.cachedBytes(of: $0.url, length) } ?? 0),
            openHandles: file?.openHandles ?? 0, demanded: statistics?.sums.demanded,
            speculative: statistics?.sums.speculative, unread: statistics?.unread.count,
            wasted: statistics?.sums.wasted, requests: records.suffix(Explanation.mostRequests),
            sums: Self.sums(records))
    }

    private static func sums(_ records: [RequestRecord]) -> [Explanation.Sum] {
        var sums: [[String?]: Explanation.Sum] = [:]
        for record in records {
            let empty = Explanation.Sum(why: record.why, program: record.program, requests: 0, failed: 0, bytes: 0)
            sums[[record.why, record.program], default: empty].requests += 1
            sums[[record.why, record.program]]!.failed += record.failure == nil ? 0 : 1
            sums[[record.why, record.program]]!.bytes += record.bytes
        }
        return sums.values.sorted { ($0.bytes, $0.why, $0.program ?? "") > ($1.bytes, $1.why, $1.program ?? "") }
    }
}
