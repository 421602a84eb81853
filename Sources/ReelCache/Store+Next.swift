import ReelCore

/// What the cache gives up next, for people who look.
extension Store {
    /// Files that `nextToGo` names at most.
    package static let mostNext = 8
    /// Looked so far ahead: a film's worth would walk through the rows of whole seasons.
    private static let nextBytes: Int64 = 256 << 20

    /// The files whose data goes next when the cache needs room, with the bytes of it, the first to go first; lastUse
    /// in milliseconds since 1970. Open ones may keep what their readers are near.
    package func nextToGo() -> [(key: String, bytes: Int64, lastUse: Int64)] {
        let found = try? readNext(Self.nextBytes) { (index, candidates) throws(CacheError) in
            var next: [(object: Int64, key: String, bytes: Int64, lastUse: Int64)] = []
            for candidate in candidates {
                if let known = next.firstIndex(where: { $0.object == candidate.object }) {
                    next[known].bytes += candidate.bytes
                } else if next.count < Self.mostNext {
                    guard let key = try index.key(of: candidate) else { continue }
                    next.append((candidate.object, key, candidate.bytes, candidate.lastUse))
                }
            }
            return next
        }
        return (found ?? []).compactMap { file in
            scope.outside(file.key).map { ($0, file.bytes, file.lastUse) }
        }
    }

    /// Gives `body` the extents that go next, in order: all of files in use that could go, and of closed files as many
    /// as have `wanted` bytes.
    func readNext<Value: Sendable>(
        _ wanted: Int64, _ body: (IndexConnection, [EvictionCandidate]) throws(CacheError) -> Value
    ) throws(CacheError) -> Value {
        let inUse = files.all
        let rows = Set(inUse.map(\.row))
        return try index.read { (index) throws(CacheError) in
            let closed = try index.evictionCandidates(wanted, usedBefore: .max, key: nil) { !rows.contains($0) }
            let open = try index.evictionCandidates(of: inUse.filter(\.mayMakeRoom))
            return try body(index, (closed + open).sorted(by: EvictionCandidate.goesBefore))
        }
    }
}
