/// Finds the bytes that are on their way, and where a new request begins.
extension Streams {
    /// Bytes that are asked for and have not come.
    var owed: Int64 {
        var count: Int64 = 0
        for stream in all { count += max(0, stream.end - stream.position) }
        return count
    }

    /// First byte from `offset` on that is neither there nor on its way.
    func firstUnplanned(from offset: Int64, limit: Int64) -> Int64 {
        var offset = offset
        while offset < limit {
            offset = present.firstMissing(from: offset, limit: limit)
            guard let stream = all.first(where: { $0.brings(offset) }) else { return offset }
            offset = stream.end
        }
        return min(offset, limit)
    }

    /// Bytes of `range` that are neither there nor on their way.
    func missing(in range: ByteRange) -> Int64 {
        let limit = min(range.upper, present.length)
        var offset = firstUnplanned(from: range.lower, limit: limit)
        var count: Int64 = 0
        while offset < limit {
            let end = all.reduce(present.firstCovered(from: offset, limit: limit)) { end, stream in
                stream.position > offset ? min(end, stream.position) : end
            }
            count += end - offset
            offset = firstUnplanned(from: end, limit: limit)
        }
        return count
    }

    /// Where a request for the missing byte `offset` begins: at the start of its block, or behind the bytes of the
    /// block that are there or on their way.
    func startOfRequest(at offset: Int64) -> Int64 {
        all.reduce(present.startOfGap(at: offset)) { $1.end <= offset ? max($0, $1.end) : $0 }
    }

    /// Where an aligned request for the missing byte `offset` begins: as far before its block as the bytes of the piece
    /// are neither there nor on their way.
    func startOfPiece(at offset: Int64) -> Int64 {
        let piece = offset / alignment * alignment
        var start = startOfRequest(at: offset)
        while start > piece, start % BlockSize.block == 0, firstUnplanned(from: start - 1, limit: start) < start {
            start = startOfRequest(at: start - 1)
        }
        return start
    }
}
