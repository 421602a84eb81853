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
        let inUse = files.all.filter { $0.row >= 0 && !$0.isReadDirectly && !$0.isOpenEnded }
        let rows = Set(files.all.map(\.row))
        let found = try? index.read { (index) throws(CacheError) in
            let closed = try index.evictionCandidates(Self.nextBytes, usedBefore: .max, key: nil) { !rows.contains($0) }
            let all = try (closed + index.evictionCandidates(of: inUse)).sorted(by: EvictionCandidate.goesBefore)
            var next: [(object: Int64, key: String, bytes: Int64, lastUse: Int64)] = []
            for candidate in all {
                if let known = next.firstIndex(where: { $0.object == candidate.object }) {
                    next[known].bytes += candidate.bytes
                } else if next.count < Self.mostNext {
                    let row = try candidate.file == nil ? index.row(candidate.object) : nil
                    guard let key = candidate.file?.version.key ?? row?.version.key else { continue }
                    next.append((candidate.object, key, candidate.bytes, candidate.lastUse))
                }
            }
            return next
        }
        return (found ?? []).compactMap { file in
            scope.outside(file.key).map { ($0, file.bytes, file.lastUse) }
        }
    }
}
