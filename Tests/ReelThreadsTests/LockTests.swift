import Testing

@testable import ReelThreads

/// The order of locks, which a debug build holds every thread to.
@Suite("Locks") struct LockTests {
    @Test("Locks taken in the order of their ranks are given") func inOrder() {
        let tree = Lock(1, .tree)
        let file = Lock(2, .file)
        let index = Lock(3, .index)
        let leaf = Monitor(4)
        let sum = tree.withLock { tree in
            file.withLock { file in index.withLock { index in leaf.withLock { tree + file + index + $0 } } }
        }
        #expect(sum == 10)
        // What was given back stands in nothing's way.
        #expect(tree.withLock { $0 } + leaf.wait { $0 } == 5)
    }

    @Test("A lock is given back where its body throws") func throwing() {
        struct Failure: Error {}
        let leaf = Lock(0)
        #expect(throws: Failure.self) { try leaf.withLock { _ throws(Failure) in throw Failure() } }
        #expect(leaf.withLock { $0 } == 0)
    }

    @Test("Each thread has its own order") func otherThread() {
        let file = Lock(0, .file)
        let tree = Lock(0, .tree)
        file.withLock { _ in Thread("other") { tree.withLock { $0 = 1 } }?.join() }
        #expect(tree.withLock { $0 } == 1)
    }

    #if DEBUG
        @Test("A lock taken under one of a later rank is reported with both names") func outOfOrder() {
            let tree = Lock(0, .tree)
            let file = Lock(0, .file, file: "File.swift")
            let broken = LockPlace.broken { file.withLock { _ in tree.withLock { _ in } } }
            #expect(
                broken == ["lock order: tree (ReelThreadsTests/LockTests.swift) taken under file (File.swift)"])
        }

        @Test("Nothing is taken under a leaf") func underLeaf() {
            let one = Lock(0)
            let other = Monitor(0)
            #expect(LockPlace.broken { one.withLock { _ in other.withLock { _ in } } }.count == 1)
        }

        @Test("No two locks of one rank are held at once") func sameRank() {
            let one = Lock(0, .tree)
            let other = Lock(0, .tree)
            #expect(LockPlace.broken { one.withLock { _ in other.withLock { _ in } } }.count == 1)
        }

        @Test("No thread waits for another while it holds a lock") func waiting() {
            let tree = Lock(0, .tree)
            let leaf = Monitor(0)
            #expect(LockPlace.broken { tree.withLock { _ in _ = leaf.wait { $0 } } }.count == 1)
        }
    #endif
}
