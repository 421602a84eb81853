import Glibc
import ReelCore
import Synchronization
import Testing

@testable import ReelCache

struct DiskHealthTests {
    private let error = CacheError.system("write", 5)

    @Test func aDiskThatFailsIsLeftAloneForLongerEachTime() {
        var health = DiskHealth()
        var pauses: [Int] = []
        var moment = Duration.zero
        for _ in 0..<7 {
            health.failed(error, moment)
            let pause = (1...60).first { health.mayTry(moment + .seconds($0)) }
            pauses.append(pause ?? 0)
            moment += .seconds(pause ?? 0)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 30, 30])
        health.synced()
        #expect(health.failure != nil, "what was full may be so still")
        health.worked()
        #expect(health.failure == nil && health.mayTry(moment))
    }

    /// Files and index fail apart, and the listener hears only when both are well, or one is not.
    @Test func aFailureStopsItsOwnKindOfWritesUntilOneOfThemSucceeds() {
        let heard = Mutex<[CacheError?]>([])
        let watch = DiskWatch(forever: nil) { failure in heard.withLock { $0.append(failure) } }
        #expect(watch.mayWriteData && watch.mayWriteIndex && watch.failure == nil)
        watch.failed(error)
        watch.indexWasWritten()
        #expect(!watch.mayWriteData && watch.mayWriteIndex && watch.failure == error)
        watch.failed(.index(13))
        #expect(!watch.mayWriteIndex)
        watch.dataWasWritten()
        #expect(watch.mayWriteData && !watch.mayWriteIndex && watch.failure == .index(13))
        watch.indexWasWritten()
        #expect(watch.mayWriteData && watch.mayWriteIndex && watch.failure == nil)
        #expect(heard.withLock { $0 } == [error, nil])
    }

    @Test func theListenerHearsOfChangesInTheirOrder() {
        final class Heard: Sendable {
            let watch = Mutex<DiskWatch?>(nil)
            let all = Mutex<[CacheError?]>([])
        }
        let heard = Heard()
        let watch = DiskWatch(forever: nil) { failure in
            // The disk recovers before the listener has taken the first notice.
            heard.watch.withLock { $0.take() }?.dataWasWritten()
            heard.all.withLock { $0.append(failure) }
        }
        heard.watch.withLock { $0 = watch }
        watch.failed(error)
        #expect(heard.all.withLock { $0 } == [error, nil])
    }

    @Test func aShortageOfTheProcessIsNoFailureOfTheDisk() {
        let watch = DiskWatch(forever: nil) { _ in }
        for number in [EMFILE, ENFILE, ENOMEM] {
            let error = CacheError.system("open", number)
            watch.failed(error)
            #expect(watch.failure == nil && watch.mayWriteData && error.isShortage && !error.isSickDisk)
        }
    }

    /// The page cache takes whatever it is given.
    @Test func afterASyncThatFailedOnlyAnotherSyncIsProof() {
        var health = DiskHealth()
        health.failed(error, .zero, needsProof: true)
        health.worked()
        #expect(!health.mayTry(.milliseconds(999)) && health.mayTry(.seconds(1)))
        health.worked()
        health.failed(error, .seconds(2), needsProof: true)
        #expect(!health.mayTry(.milliseconds(3999)) && health.mayTry(.seconds(4)))
        health.synced()
        #expect(health.failure == nil)
        health.failed(error, .seconds(5))
        health.worked()
        #expect(health.failure == nil, "a proof is wanted once")
    }

    /// Else a library that is cached as a whole would never be believed in again.
    @Test func whereThereIsNothingToSyncTheNextBytesAreTheProof() {
        var health = DiskHealth()
        health.failed(error, .zero, needsProof: true)
        health.hasNothingToSync(.milliseconds(999))
        #expect(health.failure != nil)
        health.hasNothingToSync(.seconds(1))
        #expect(health.failure == nil)
        health.failed(error, .seconds(5))
        health.hasNothingToSync(.seconds(100))
        #expect(health.failure != nil, "a full disk is one until something fits")
    }
}
