import CSQLite
import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// Runs `body` while this process can open nothing more.
private func withoutDescriptors(_ body: () throws -> Void) throws {
    let lowest = open("/dev/null", O_RDONLY | O_CLOEXEC)
    close(lowest)
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    try #require(getrlimit(resource, &limit) == 0)
    defer { setrlimit(resource, &limit) }
    var less = limit
    less.rlim_cur = rlim_t(lowest)
    try #require(setrlimit(resource, &less) == 0)
    try #require(open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 && errno == EMFILE)
    try body()
}

/// In a process of its own, whose limit of open files it changes.
@Suite struct ShortageTests {
    @Test func withoutDescriptorsBytesAreKeptInMemoryAndNothingIsLost() async {
        await #expect(processExitsWith: .success) {
            let fixture = Fixture()
            var store = try fixture.open()
            for key in ["open", "gone", "kept"] { try store.fill(version(key, blocks: 130), [0, 64]) }
            store.close()
            store = try fixture.open()
            store.commit()
            do {
                let open = try store.object(for: version("open", blocks: 130))
                try withoutDescriptors {
                    let new = try store.fill(version("new", blocks: 2), 0..<2)
                    #expect(new.isInMemory && new.holds(1))
                    // It is on the disk, and out of reach.
                    let other = try store.fill(version("kept", blocks: 130), [1])
                    #expect(other.filledBlocks == [1] && other.holds(1))
                    // What is open goes on.
                    try open.fill(1)
                    #expect(open.holds(0) && open.holds(1) && !open.isInMemory)
                    #expect(throws: CacheError.system("open", EMFILE)) { try store.prune(freeing: .max / 2) }
                    #expect(store.failure == nil && store.damagedBlocks == 0)
                    // Files go all the same: else their bytes would count nowhere.
                    store.forget(version("gone", blocks: 130))
                }
                #expect(fixture.objectFiles.count == 2)
            }
            store.commit()
            #expect(try store.object(for: version("open", blocks: 130)).filledBlocks == [0, 1, 64])
            #expect(try store.object(for: version("kept", blocks: 130)).filledBlocks == [0, 64])
            #expect(store.failure == nil && store.bytesInMemory == 0)
            store.close()
        }
    }

    /// SQLite says of both that it cannot open the file.
    @Test func anIndexThatFindsNoDescriptorIsAShortageAndOneThatIsAwayASickDisk() async {
        await #expect(processExitsWith: .success) {
            let fixture = Fixture()
            try fixture.open().close()
            try withoutDescriptors {
                #expect(throws: CacheError.system("open", EMFILE)) { try IndexConnection(fixture.index) }
            }
            #expect(throws: CacheError.index(SQLITE_CANTOPEN)) { try IndexConnection(fixture.index + "-away") }
            #expect(CacheError.sqlite(SQLITE_NOMEM, on: nil).isShortage)
            #expect(CacheError.sqlite(CacheError.ioerrNoMemory, on: nil).isShortage)
            #expect(!CacheError.sqlite(SQLITE_FULL, on: nil).isShortage)
        }
    }
}
