import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// A resource that does not say how long it is: its one body runs into a file of the cache from its first byte on, reads
/// wait for their place in it, and the end tells the length.
final class GrowingFile: Sendable {
    /// As far as the body may run ahead of its reader, before the origin is told to wait; less where it runs through
    /// memory. So far behind its reader it can be read again there.
    private static let lead: Int64 = 32 << 20
    private static let leadInMemory: Int64 = 4 << 20
    private static let tailInMemory: Int64 = 4 << 20

    private struct Waiting {
        var read: any ParkedRead
        var offset: Int64
        var count: Int
        var deadline: Duration
    }

    private struct State {
        var received: Int64 = 0
        var furthestRead: Int64 = 0
        var waiting: [Waiting] = []
        var isPaused = false
        var isEnding = false
        /// Set at the end: nil is a body that came whole.
        var end: OriginFailure??
        var openHandles = 0
        var lastClose: Duration = .zero
        var rate = RateMeter()
        /// Called once nobody can read here any more.
        var onGone: (@Sendable () -> Void)?
    }

    let url: ResourceURL
    let information: ContentInformation
    private let request: RequestHandle
    private let object: GrowingObject
    private let services: Services
    private let state = Mutex(State())
    /// The body came whole and was written down as a version of that length.
    private let finished: @Sendable (ContentInformation) -> Void

    init(
        _ url: ResourceURL, _ information: ContentInformation, _ request: RequestHandle, _ services: Services,
        finished: @escaping @Sendable (ContentInformation) -> Void
    ) {
        self.url = url
        self.information = information
        self.request = request
        self.services = services
        self.finished = finished
        object = services.store.growingObject(key: url.text, validator: information.validator)
    }

    func read(_ offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead) -> ReadAnswer {
        let found = state.withLock { self.found(offset, buffer.count, $0) }
        resumeIfClose(offset + Int64(buffer.count))
        switch found {
        case .bytes(let count):
            services.counters.hits.add(1, ordering: .relaxed)
            let read = object.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
            guard read == count else { return .failed(.failed) }
            services.counters.bytesServed.add(Int64(count), ordering: .relaxed)
            return .read(count)
        case .failure(let error): return .failed(error)
        case .nothingYet:
            services.counters.misses.add(1, ordering: .relaxed)
            let waiting = Waiting(
                read: park(), offset: offset, count: buffer.count, deadline: now() + services.options.timeout)
            state.withLock { $0.waiting.append(waiting) }
            services.ticker.add(self)
            // It may have come since it was looked for.
            answerWaiting()
            return .parked
        }
    }

    func abandon(_ read: any ParkedRead) { state.withLock { $0.waiting.removeAll { $0.read === read } } }

    private enum Found {
        case bytes(Int), nothingYet, failure(VolumeError)
    }

    /// Whole reads only, or what there is up to the end.
    private func found(_ offset: Int64, _ count: Int, _ state: State) -> Found {
        let there = max(0, state.received - offset)
        if there >= Int64(count) { return .bytes(count) }
        switch state.end {
        case .some(.none): return .bytes(Int(there))
        case .some(.some(let failure)): return .failure(VolumeError(failure))
        case .none: return .nothingYet
        }
    }

    private func resumeIfClose(_ offset: Int64) {
        let limit = object.isInMemory ? GrowingFile.leadInMemory : GrowingFile.lead
        let isClose = state.withLock { state in
            state.furthestRead = max(state.furthestRead, offset)
            guard state.isPaused, state.received - state.furthestRead < limit / 2 else { return false }
            state.isPaused = false
            return true
        }
        if isClose { services.origin.resume(request) }
    }

    private func answerWaiting() {
        let ready = state.withLock { state -> [Waiting] in
            let ready = state.waiting.filter {
                if case .nothingYet = found($0.offset, $0.count, state) { false } else { true }
            }
            state.waiting.removeAll { waiting in ready.contains { $0.read === waiting.read } }
            return ready
        }
        for waiting in ready {
            services.answers.add { [self] in
                services.withAnswerBuffer(waiting.count) { buffer in
                    switch read(waiting.offset, into: buffer, park: { waiting.read }) {
                    case .read(let count): waiting.read.succeed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                    case .failed(let error): waiting.read.fail(error)
                    case .parked: break
                    }
                }
            }
        }
    }

    // MARK: What the stream brings

    func arrived(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let count = Int64(bytes.count)
        // It comes from its beginning, as somebody opened it: what lies before a reader has to come first.
        services.counters.demandedBytes(bytes.count)
        do {
            try object.append(bytes)
        } catch {
            services.logger.error("\(url), of no known length: \(error)")
            ended(.wrongAnswer("no room in the cache"))
            return .stop
        }
        let isInMemory = object.isInMemory
        if isInMemory { object.forget(before: state.withLock { $0.furthestRead } - GrowingFile.tailInMemory) }
        let isFarAhead = state.withLock { state in
            state.rate.add(count, now())
            state.received += count
            state.isPaused =
                state.received - state.furthestRead > (isInMemory ? GrowingFile.leadInMemory : GrowingFile.lead)
            return state.isPaused
        }
        answerWaiting()
        return isFarAhead ? .pause : .more
    }

    func ended(_ failure: OriginFailure?) {
        let length = state.withLock { state -> Int64? in
            guard state.end == nil, !state.isEnding else { return nil }
            state.isEnding = true
            return state.received
        }
        guard let length else { return }
        if failure == nil {
            var whole = information
            whole.length = length
            do {
                if try object.finish() != nil { finished(whole) }
            } catch {
                services.logger.error("\(error)")
            }
        }
        // Last: who sees the end may open the file anew, and is to find what it has become.
        state.withLock { $0.end = .some(failure) }
        answerWaiting()
        leaveIfGone()
    }

    // MARK: Life

    func opened() { state.withLock { $0.openHandles += 1 } }

    /// False where the body is over: then there is a better way to open it.
    func tryOpen() -> Bool {
        state.withLock { state in
            guard state.end == nil else { return false }
            state.openHandles += 1
            return true
        }
    }

    func closed() {
        state.withLock { state in
            state.openHandles -= 1
            state.lastClose = now()
        }
        services.ticker.add(self)
        leaveIfGone()
    }

    func onGone(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onGone = body }
        leaveIfGone()
    }

    /// Whoever keeps it lets go: what was received and not finished leaves the cache with the last reference.
    private func leaveIfGone() {
        let onGone = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.end != nil, state.openHandles == 0 else { return nil }
            return state.onGone.take()
        }
        onGone?()
    }

    var openHandles: Int { state.withLock { $0.openHandles } }
    var received: Int64 { state.withLock { $0.received } }
    var rate: Int64 { state.withLock { $0.rate.perSecond(now()) } }

    func shutdown() {
        ended(.cancelled)
        services.origin.cancel(request)
    }

    /// The deadline of a slow stream: what has come is an answer, as a handle without a length is read directly.
    private func answerLate(_ waiting: Waiting) {
        let there = state.withLock { Int(min(Int64(waiting.count), max(0, $0.received - waiting.offset))) }
        guard there > 0 else { return waiting.read.fail(.timedOut) }
        services.answers.add { [self] in
            services.withAnswerBuffer(there) { buffer in
                let count = object.read(into: buffer, at: waiting.offset)
                guard count == there else { return waiting.read.fail(.failed) }
                waiting.read.succeed(UnsafeRawBufferPointer(buffer))
            }
        }
    }
}

extension GrowingFile: Ticking {
    func tick(_ now: Duration) -> Bool {
        let (late, isAbandoned, isTicking) = state.withLock { state in
            let late = state.waiting.filter { $0.deadline <= now }
            state.waiting.removeAll { $0.deadline <= now }
            let isAbandoned = state.openHandles == 0 && state.end == nil && now - state.lastClose > .seconds(10)
            if isAbandoned { state.end = .some(.cancelled) }
            return (late, isAbandoned, !state.waiting.isEmpty || (state.end == nil && state.openHandles == 0))
        }
        for waiting in late { answerLate(waiting) }
        if isAbandoned {
            services.origin.cancel(request)
            leaveIfGone()
        }
        return isTicking
    }
}
