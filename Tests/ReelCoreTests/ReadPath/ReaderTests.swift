import Testing

@testable import ReelCore

@Suite struct ReaderTests {
    private static let length: Int64 = 1 << 30

    @Test("A reader is reported with its place and the bytes ahead of it, while the file is open")
    func places() {
        var ledger = Ledger(length: Self.length, there: [ByteRange(0, 20 << 20), ByteRange(40 << 20, 50 << 20)])
        #expect(ledger.readers(now: .zero).isEmpty)
        ledger.opened()
        for (index, lower) in stride(from: 0, to: Int64(4 << 20), by: 128 << 10).enumerated() {
            _ = ledger.hit(ByteRange(lower, lower + 128 << 10), now: .milliseconds(100 * index))
        }
        _ = ledger.hit(ByteRange(40 << 20, 40 << 20 + 4096), now: .seconds(4))
        let readers = ledger.readers(now: .seconds(4))
        #expect(readers.map(\.position) == [40 << 20 + 4096, 4 << 20] as [Int64])
        #expect(readers.map(\.ahead) == [10 << 20 - 4096, 16 << 20] as [Int64])
        let rate = readers[1].rate ?? 0
        #expect(rate > 1_200_000 && rate < 1_500_000, "\(rate)")
        // One that rests for a minute may be gone; the last one is reported all the same.
        #expect(ledger.readers(now: .seconds(100)).map(\.position) == [40 << 20 + 4096] as [Int64])
        ledger.closed(now: .seconds(100))
        #expect(ledger.readers(now: .seconds(100)).isEmpty)
    }

    @Test("A reader whose bytes come just before each of its reads is handed over to wait stays one reader")
    func handedOver() {
        let bytes = TestBytes(length: Self.length)
        var ledger = Ledger(bytes)
        ledger.opened()
        var left: [ByteRange] = []
        for number in 0..<Int64(48) {
            let range = ByteRange(number << 20, (number + 1) << 20)
            let isThere = ledger.hit(range, now: .seconds(number))
            #expect(!isThere)
            bytes.add(range)
            let actions = ledger.park(UInt64(number), range, deadline: .seconds(100), now: .seconds(number))
            #expect(actions == [.complete(UInt64(number))])
            _ = ledger.hit(range, now: .seconds(number), wasParked: true)
            if let behind = ledger.takeBehind() { left.append(behind) }
        }
        #expect(ledger.readers(now: .seconds(47)).map(\.position) == [48 << 20] as [Int64])
        #expect(left == (0..<4).map { ByteRange($0 << 23, ($0 + 1) << 23) })
    }

    @Test("Bytes that requests bring are on their way, and their requests have left or not")
    func coming() {
        var ledger = Ledger(length: Self.length)
        ledger.opened()
        let range = ByteRange(0, 128 << 10)
        let actions = ledger.park(1, range, deadline: .seconds(30), now: .zero)
        guard case .start(let id, let asked, _)? = actions.first else { return #expect(Bool(false), "\(actions)") }
        #expect(ledger.coming.contains { $0.contains(range) })
        #expect(!ledger.isAsked(for: range) && ledger.rest(of: id) == asked)
        ledger.requested(id, now: .milliseconds(5))
        #expect(ledger.isAsked(for: range))
        _ = ledger.arrived(id, ByteRange(0, 64 << 10), now: .milliseconds(50))
        #expect(ledger.rest(of: id)?.lower == 64 << 10)
    }
}
