/// The readers of the file and the bytes on their way, for people who look.
extension Ledger {
    /// A place at which a program reads forward.
    package struct Reader: Hashable, Sendable {
        /// One behind the furthest byte that it has read.
        package var position: Int64
        /// Bytes in a row behind `position` that are there.
        package var ahead: Int64
        /// Bytes a second that it reads; nil before they are measured.
        package var rate: Double?
        /// It has taken bytes at a pace of its own; a copy takes all that come.
        package var isPlayer: Bool
    }

    /// A reader that paused for this long may be gone; the last one is reported all the same.
    private static let told = Duration.seconds(60)

    /// The readers of the last minute, the last active one first; none where no handle is open.
    package func readers(now: Duration) -> [Reader] {
        guard openHandles > 0 else { return [] }
        let last = planner.cursors.last
        return planner.cursors.all.reversed().filter { $0 == last || now - $0.lastRead < Self.told }.map { cursor in
            let position = min(cursor.position, length)
            return Reader(
                position: position, ahead: present.firstMissing(from: position, limit: length) - position,
                rate: cursor.rate, isPlayer: cursor.isPaced)
        }
    }

    /// The bytes that requests under way will bring.
    package var coming: [ByteRange] { planner.streams.all.map(\.rest).filter { !$0.isEmpty } }

    /// Whether a request for the first missing byte of a range has left the queue.
    package func isAsked(for range: ByteRange) -> Bool {
        let missing = present.firstMissing(from: range.lower, limit: range.upper)
        return planner.streams.all.contains { $0.isSent && $0.brings(missing) }
    }

    /// The bytes that a stream has yet to bring; nil where there is no such stream.
    package func rest(of id: StreamID) -> ByteRange? { planner.streams[id]?.rest }
}
