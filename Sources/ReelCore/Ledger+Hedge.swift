/// A second try beside a stream that has gone silent: the first byte of either ends the other.
extension Ledger {
    /// Starts one for each read whose stream has shown no sign of life for unusually long.
    mutating func hedge(now: Duration) -> [Action] {
        guard acceptsRanges else { return [] }
        var actions: [Action] = []
        for read in waiting {
            let offset = present.firstMissing(from: read.range.lower, limit: read.range.upper)
            let serving = streams.filter { $0.position <= offset && offset < $0.end }
            guard serving.count == 1, let stream = serving.first, stream.rival == nil, stream.retryAt == nil,
                stream.isSent, now - stream.lastProgress >= pace.hedgeAfter
            else { continue }
            // What was gathered of its block is there; no read waits for what lies before it.
            let lower = max(stream.position, present.startOfGap(at: offset))
            let range = ByteRange(lower, min(stream.end, max(read.range.upper, lower + BlockSize.block)))
            let id = add(range, .demand, now)
            streams[streams.count - 1].rival = stream.id
            if let index = streams.firstIndex(where: { $0.id == stream.id }) { streams[index].rival = id }
            actions.append(.start(id, range, isDemanded: true))
        }
        return actions
    }

    /// A stream brought a byte: stops its rival, and plans anew what only the rival would have brought.
    mutating func settleRival(of id: StreamID, now: Duration) -> [Action] {
        guard let index = streams.firstIndex(where: { $0.id == id }), let rival = streams[index].rival else {
            return []
        }
        streams[index].rival = nil
        guard streams.contains(where: { $0.id == rival }) else { return [] }
        drop { $0.id == rival }
        pace.ended(rival)
        return [.stop(rival)] + planDemanded(now: now)
    }

    /// A stream failed. - Returns: what to do where its rival goes on in its place; nil where it has none.
    mutating func leaveToRival(_ id: StreamID, now: Duration) -> [Action]? {
        guard let index = streams.firstIndex(where: { $0.id == id }), let rival = streams[index].rival,
            let other = streams.firstIndex(where: { $0.id == rival })
        else { return nil }
        streams[other].rival = nil
        // Its own time begins now: it was asked for while the other had been silent for long.
        streams[other].lastProgress = now
        drop { $0.id == id }
        return planDemanded(now: now)
    }
}
