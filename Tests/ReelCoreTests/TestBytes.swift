import Synchronization

@testable import ReelCore

/// Bytes that are there because a test says so.
final class TestBytes: PresentBytes {
    private let state: Mutex<State>

    private struct State {
        var length: Int64
        var there = ByteRangeSet()
        var removals: UInt64 = 0
        var comesMeanwhile: Int64 = 0
        var came: [ByteRange] = []

        func firstRange(endingBehind offset: Int64) -> ByteRange? { there.ranges.first { $0.upper > offset } }
    }

    init(length: Int64, there: [ByteRange] = []) {
        state = Mutex(State(length: length))
        for range in there { add(range) }
    }

    var length: Int64 { state.withLock { $0.length } }

    /// Behind the end, known from here on, nothing is missing.
    func settle(length: Int64) {
        state.withLock { state in
            state.length = length
            state.there.insert(ByteRange(length, .max))
        }
    }

    func add(_ range: ByteRange) { state.withLock { $0.there.insert(range) } }

    func remove(_ range: ByteRange) {
        state.withLock { state in
            state.there.remove(range)
            state.removals += 1
        }
    }

    /// When a gap is measured next, this many bytes of it have come: a request that was let go of still writes.
    func comeMeanwhile(_ count: Int64) { state.withLock { $0.comesMeanwhile = count } }

    /// The bytes that came so.
    func takeCame() -> [ByteRange] {
        state.withLock { state in
            defer { (state.came, state.comesMeanwhile) = ([], 0) }
            return state.came
        }
    }

    var isComplete: Bool { covers(ByteRange(0, length)) }
    var removals: UInt64 { state.withLock { $0.removals } }
    func covers(_ range: ByteRange) -> Bool { firstMissing(from: range.lower, limit: range.upper) >= range.upper }
    func isFilled(_ block: Int) -> Bool { covers(BlockSize.bytes(of: block, length: length)) }

    func firstMissing(from offset: Int64, limit: Int64) -> Int64 {
        guard offset < limit else { return limit }
        let range = state.withLock { $0.firstRange(endingBehind: offset) }
        return min(limit, range.flatMap { $0.contains(offset) ? $0.upper : nil } ?? offset)
    }

    func firstCovered(from offset: Int64, limit: Int64) -> Int64 {
        state.withLock { state in
            if state.comesMeanwhile > 0 {
                let range = ByteRange(offset, min(offset + state.comesMeanwhile, state.length))
                state.comesMeanwhile = 0
                state.there.insert(range)
                state.came.append(range)
            }
            return state.firstRange(endingBehind: offset).map { min(limit, max(offset, $0.lower)) } ?? limit
        }
    }

    func startOfGap(at offset: Int64) -> Int64 {
        let block = BlockSize.bytes(of: Int(offset / BlockSize.block), length: length)
        return state.withLock { state in
            state.there.ranges.last { $0.upper <= offset }.map { max($0.upper, block.lower) } ?? block.lower
        }
    }
}

extension Ledger {
    /// A version of which these bytes are there, to be changed by the test.
    init(length: Int64, there: [ByteRange] = [], acceptsRanges: Bool = true, cacheCap: Int64 = .max) {
        self.init(TestBytes(length: length, there: there), acceptsRanges: acceptsRanges, cacheCap: cacheCap)
    }

    var bytes: TestBytes { present as! TestBytes }
    var streams: [ReelCore.Stream] { planner.streams.all }
    var cursors: [Cursor] { planner.cursors.all }
    var pace: Pace { planner.streams.pace }

    /// Puts the bytes where the ledger looks, and reports them to it.
    mutating func arrived(
        _ id: StreamID, _ range: ByteRange, now: Duration
    ) -> (actions: [Action], answer: BodyAnswer) {
        let news = bytes.gaps(in: range)
        bytes.add(range)
        return arrived(id, range, news: news, now: now)
    }

    /// Blocks leave the cache.
    mutating func forget(_ blocks: Range<Int>) {
        for block in blocks { bytes.remove(BlockSize.bytes(of: block, length: length)) }
        notice()
    }
}
