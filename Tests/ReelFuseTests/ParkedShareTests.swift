import Glibc
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

@Suite("Shares of parked reads")
struct ParkedShareTests {
    private func fill(_ shares: inout ParkedShares, user: uid_t, file: UInt64) -> Int {
        var count = 0
        while shares.take(.init(user: user, file: file)) { count += 1 }
        return count
    }

    @Test(
        "One file takes a third, one user half, and each further user half of what is left",
        arguments: [6, 670, 65_535])
    func greed(capacity: Int) {
        var shares = ParkedShares(capacity: capacity)
        #expect(abs(fill(&shares, user: 1, file: 1) - capacity / 3) <= 1)
        for file in UInt64(2)..<40 { _ = fill(&shares, user: 1, file: file) }
        let left = capacity - capacity / 2
        #expect(fill(&shares, user: 1, file: 99) == 0)
        #expect(left < 6 || fill(&shares, user: 2, file: 100) > left / 4)
        #expect(shares.take(.init(user: 3, file: 101)) || capacity < 12)
    }

    @Test("Whatever is given back can be taken again")
    func back() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        var shares = ParkedShares(capacity: 100)
        var held: [ParkedShares.Owner] = []
        for _ in 0..<20_000 {
            if Bool.random(using: &generator), let owner = held.popLast() {
                shares.giveBack(owner)
            } else {
                let owner = ParkedShares.Owner(
                    user: .random(in: 0..<9, using: &generator), file: .random(in: 0..<9, using: &generator))
                if shares.take(owner) { held.append(owner) }
            }
            held.shuffle(using: &generator)
            #expect(held.count < 100, "seed \(seed)")
        }
        for owner in held { shares.giveBack(owner) }
        #expect(fill(&shares, user: 1, file: 1) == 33, "seed \(seed)")
    }
}

#if arch(arm64)
    private let direct: Int32 = 0x10000
#else
    private let direct: Int32 = 0x4000
#endif

@Suite("Parked reads beside others", .serialized, .enabled(if: fuseIsUsable))
struct ParkedReadTests {
    private static let files = [
        "silent": MemoryFile(node: 2, length: 1 << 32, reading: .never),
        "film": MemoryFile(node: 4, length: 3_000_000),
    ]

    private func readsFilm(_ mount: MountFixture) -> Bool {
        let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        return readFile(descriptor, at: 0, count: 3_000_000) == Self.files["film"]!.bytes(0..<3_000_000)
    }

    /// Runs `greed`, which may never end while the mount lives, and reads another file once `isDone`.
    private func expectFilmIsRead(
        beside greed: @escaping @Sendable (Int32) -> Void, flags: Int32, threads: Int,
        once isDone: (MountFixture) -> Bool
    ) throws {
        try withMount(Self.files) { mount in
            let descriptor = open(mount.file("silent"), O_RDONLY | O_CLOEXEC | flags)
            try #require(descriptor >= 0)
            let greedy = (0..<threads).map { _ in Thread("greedy") { greed(descriptor) } }
            #expect(eventually { isDone(mount) })
            let wasRead = Monitor(false)
            let reader = Thread("reader") { if readsFilm(mount) { wasRead.withLock { $0 = true } } }
            // The kernel may hand over all that it has queued first.
            #expect(eventually(within: .seconds(60)) { wasRead.withLock { $0 } })
            mount.session.stop()
            for thread in greedy + [reader] { thread?.join() }
            close(descriptor)
        }
    }

    @Test("Hundreds of O_DIRECT reads that wait do not keep a read of another file waiting")
    func directReads() throws {
        try expectFilmIsRead(
            beside: { descriptor in
                var memory: UnsafeMutableRawPointer?
                posix_memalign(&memory, 4096, 4096)
                _ = pread(descriptor, memory, 4096, 0)
                free(memory)
            }, flags: direct, threads: 400, once: { $0.filesystem.state.withLock { $0.parked } >= 400 })
    }

    @Test(
        "Readahead of a silent file without end, which nobody waits for, does not keep a read of another file waiting")
    func readahead() throws {
        let asked = Monitor(0)
        try expectFilmIsRead(
            beside: { descriptor in
                // More than the kernel's queue can hold.
                for number in 0..<70_000 {
                    posix_fadvise(descriptor, number * 8192, 4096, POSIX_FADV_WILLNEED)
                    asked.withLock { $0 += 1 }
                }
            }, flags: 0, threads: 1, once: { _ in asked.withLock { $0 } == 70_000 })
    }
}
