import Logging
import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// What every file of a mount shares.
final class Services: Sendable {
    let origin: any Origin
    let store: Store
    let options: VolumeOptions
    let logger: Logger
    let counters = Counters()
    let ticker = Ticker()
    let answers = Line("answers")
    /// Work that may take a while and belongs neither on the transport's thread nor on the kernel's: parsing listings,
    /// writing them down.
    let chores = Line("chores")
    let weather = Weather()
    private let answerBuffer = AnswerBuffer()

    init(origin: any Origin, store: Store, options: VolumeOptions, logger: Logger) {
        self.origin = origin
        self.store = store
        self.options = options
        self.logger = logger
    }

    /// For jobs of the `answers` line only: they run one after another, so one buffer serves all.
    func withAnswerBuffer(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Void) {
        body(answerBuffer.bytes(count))
    }

    func shutdown() {
        ticker.stop()
        answers.stop()
        chores.stop()
    }
}

/// Only ever touched by the thread of the `answers` line.
private final class AnswerBuffer: @unchecked Sendable {
    private var memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)

    deinit { memory.deallocate() }

    func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if count > memory.count {
            memory.deallocate()
            memory = .allocate(byteCount: count, alignment: 4096)
        }
        return UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
    }
}

package struct VolumeOptions: Sendable {
    /// How long a read, a listing or an open may take before it fails.
    package var timeout: Duration
    /// Answered as `user.reelfs.socket` on the root; nil: no such attribute.
    package var socketPath: String?

    package init(timeout: Duration = .seconds(30), socketPath: String? = nil) {
        self.timeout = timeout
        self.socketPath = socketPath
    }
}

final class Counters: Sendable {
    let bytesFromOrigin = Atomic<Int64>(0)
    let bytesServed = Atomic<Int64>(0)
    let hits = Atomic<Int64>(0)
    let misses = Atomic<Int64>(0)
}

/// Whether the origin could be reached a moment ago: who has the bytes does not ask again and again.
final class Weather: Sendable {
    private let cloudyUntil = Mutex<Duration>(.zero)

    var isCloudy: Bool { now() < cloudyUntil.withLock { $0 } }

    func saw(_ failure: OriginFailure?) {
        switch failure {
        // Refused at once costs little to try again; packets that vanish cost seconds.
        case .unreachable: cloudyUntil.withLock { $0 = now() + .seconds(2) }
        case .timedOut: cloudyUntil.withLock { $0 = now() + .seconds(10) }
        case .cancelled: break
        default: cloudyUntil.withLock { $0 = .zero }
        }
    }
}

/// One thread that does one thing after another.
final class Line: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isOver = false
    }

    private let state: Monitor<State>
    private let thread: Thread

    init(_ name: String) {
        let state = Monitor(State())
        self.state = state
        let thread = Thread(name) {
            while true {
                let jobs = state.wait { state -> [@Sendable () -> Void]? in
                    if state.jobs.isEmpty { return state.isOver ? [] : nil }
                    defer { state.jobs.removeAll(keepingCapacity: true) }
                    return state.jobs
                }
                if jobs.isEmpty { return }
                for job in jobs { job() }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    func add(_ job: @escaping @Sendable () -> Void) { state.withLock { $0.jobs.append(job) } }

    /// Does what is left and ends the thread.
    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
    }
}

protocol Ticking: AnyObject, Sendable {
    /// - Returns: whether there is more to wait for.
    func tick(_ now: Duration) -> Bool
}

/// The clock of everything that has something under way; sleeps while nothing has.
final class Ticker: Sendable {
    /// Deadlines and pauses are in tenths of a second and more.
    private static let interval = Duration.milliseconds(50)

    private struct State {
        var members: [ObjectIdentifier: any Ticking] = [:]
        var timers: [(due: Duration, job: @Sendable () -> Void)] = []
        var isOver = false
    }

    private let state: Monitor<State>
    private let thread: Thread

    init() {
        let state = Monitor(State())
        self.state = state
        let thread = Thread("ticker") {
            while true {
                guard state.wait({ $0.isOver ? false : $0.members.isEmpty && $0.timers.isEmpty ? nil : true }) == true else { return }
                if state.wait(atMost: Ticker.interval, { $0.isOver ? true : nil }) == true { return }
                let moment = now()
                let (members, due) = state.withLock { state in
                    let due = state.timers.filter { $0.due <= moment }
                    state.timers.removeAll { $0.due <= moment }
                    return (state.members, due)
                }
                for timer in due { timer.job() }
                for (id, member) in members where !member.tick(moment) {
                    state.withLock { $0.members[id] = nil }
                    // Work that came in between may have found itself still a member.
                    if member.tick(now()) { Ticker.add(member, to: state) }
                }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    func add(_ member: any Ticking) {
        if state.withLock(notifying: false, { $0.members[ObjectIdentifier(member)] != nil }) { return }
        Ticker.add(member, to: state)
    }

    private static func add(_ member: any Ticking, to state: Monitor<State>) {
        state.withLock { state in
            if !state.isOver { state.members[ObjectIdentifier(member)] = member }
        }
    }

    /// Does a short job some time from now; never, if the volume ends before.
    func after(_ pause: Duration, _ job: @escaping @Sendable () -> Void) {
        state.withLock { state in
            if !state.isOver { state.timers.append((now() + pause, job)) }
        }
    }

    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
        state.withLock { $0.members.removeAll() }
    }
}
