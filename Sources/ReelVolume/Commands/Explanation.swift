import ReelCore
import ReelThreads

/// What was fetched of a file, and what came of it. In bytes.
package struct FileUse: Codable, Hashable, Sendable {
    /// A read waited for them.
    package var demanded: Int64 = 0
    /// Fetched ahead of readers; and of these: not read yet, and wasted.
    package var speculative: Int64 = 0
    package var unread: Int64 = 0
    package var wasted: Int64 = 0
    /// The bytes of all reads, those of bytes that were read before among them. The kernel's own reads are not seen.
    package var read: Int64 = 0

    package init() {}

    init(_ statistics: FetchStatistics) {
        demanded = statistics.sums.demanded
        speculative = statistics.sums.speculative
        unread = statistics.unread.count
        wasted = statistics.sums.wasted
        read = statistics.readBytes
    }

    static func += (sum: inout FileUse, other: FileUse) {
        sum.demanded += other.demanded
        sum.speculative += other.speculative
        sum.unread += other.unread
        sum.wasted += other.wasted
        sum.read += other.read
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
    /// What came of it in the last hours, nil if nothing is remembered.
    package var use: FileUse?
    /// The last requests, the oldest first; at most ``mostRequests``.
    package var requests: [RequestRecord]
    /// The sums of the last hours, before those too.
    package var sums: [Sum]

    /// All requests with one reason for one program.
    package struct Sum: Codable, Sendable {
        package var why: String
        package var program: String?
        package var requests: Int
        package var failed: Int
        package var bytes: Int64
    }

    /// A screen shows fewer.
    package static let mostRequests = 30
}

extension Maintenance {
    /// Reports from memory what was fetched of a file, or for the listing of a directory.
    /// - Parameter path: inside the mount, without a leading `/`.
    /// - Throws: a sentence for the user: the path is not listed.
    package func explain(_ path: String) throws(MaintenanceFailure) -> Explanation {
        let (place, entry) = try tree.place(of: path)
        guard let url = entry?.url ?? place.url else {
            throw MaintenanceFailure("\(path.isEmpty ? "the list" : path) is a local file, which no request asks for")
        }
        let records = services.upstream.requests.records(of: url)
        let inUse = files.all.filter { $0.url == url }
        let file = inUse.first
        let length =
            file.flatMap { $0.isOpenEnded ? nil : $0.length }
            ?? services.store.information(for: url.text)?.information.length ?? entry?.length
        let uses = services.upstream.requests.uses(of: url) + inUse.map { FileUse($0.statistics) }
        return Explanation(
            path: path, length: length,
            cached: file?.cachedBytes ?? (entry.map { services.keys.cachedBytes(of: $0.url, length) } ?? 0),
            openHandles: inUse.reduce(0) { $0 + $1.openHandles },
            use: uses.isEmpty ? nil : uses.reduce(into: FileUse()) { $0 += $1 },
            requests: records.suffix(Explanation.mostRequests), sums: Self.sums(records))
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
