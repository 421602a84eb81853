import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// The first request for a resource of which nothing is known: its head is the content information, its body the first
/// bytes, which are kept.
final class FirstTouch: OriginReceiver {
    enum Found: Sendable {
        case file(RemoteFile)
        case failure(OriginFailure)
    }

    private struct State {
        var file: (RemoteFile, Ledger.StreamID)?
        var request: OriginRequestID?
        var isAnswered = false
    }

    private let url: ResourceURL
    private let range: ByteRange?
    private let files: FileTable
    private let services: Services
    private let tail: TailTouch?
    private let state = Mutex(State())
    private let finished: @Sendable (ContentInformation) -> Void
    private let completion: @Sendable (Found) -> Void

    private init(
        _ url: ResourceURL, _ range: ByteRange?, _ tail: TailTouch?, _ files: FileTable, _ services: Services,
        _ finished: @escaping @Sendable (ContentInformation) -> Void, _ completion: @escaping @Sendable (Found) -> Void
    ) {
        self.url = url
        self.tail = tail
        self.range = range
        self.files = files
        self.services = services
        self.finished = finished
        self.completion = completion
    }

    /// The file in the answer is opened: one handle of it is counted.
    /// - Parameters:
    ///   - head: bytes to ask for.
    ///   - tail: its end, asked for at the same time.
    ///   - finished: a resource of unknown length came to its end.
    static func start(
        _ url: ResourceURL, head: Int64 = Readahead.first, tail: ByteRange?, _ files: FileTable, _ services: Services,
        finished: @escaping @Sendable (ContentInformation) -> Void, _ completion: @escaping @Sendable (Found) -> Void
    ) {
        let limit = services.options.timeout
        // Behind the first request in the queue: it is the one that somebody waits for.
        let beside = tail.map { TailTouch($0, url, services) }
        defer { beside?.start() }
        retrying(until: now() + limit, services) { left, done in
            attempt(url, ByteRange(0, head), beside, left, files, services, finished) { found in
                // An empty file has no first byte; asked for as a whole it says so.
                if case .failure(.status(416, _)) = found {
                    return attempt(url, nil, beside, left, files, services, finished, done)
                }
                done(found)
            }
        } completion: { found in
            if case .file = found {} else { beside?.cancel() }
            completion(found)
        }
    }

    private static func attempt(
        _ url: ResourceURL, _ range: ByteRange?, _ tail: TailTouch?, _ limit: Duration, _ files: FileTable,
        _ services: Services,
        _ finished: @escaping @Sendable (ContentInformation) -> Void, _ completion: @escaping @Sendable (Found) -> Void
    ) {
        let touch = FirstTouch(url, range, tail, files, services, finished, completion)
        let id = services.origin.start(OriginRequest(url: url, range: range, stallLimit: limit), touch)
        touch.started(id)
    }

    private func started(_ id: OriginRequestID) {
        let state = state.withLock { state in
            state.request = id
            return state
        }
        link(state)
    }

    /// The stream has to know its request, to stop it: whichever of the two is known last ties them together.
    private func link(_ state: State) {
        guard let request = state.request else { return }
        if let (file, stream) = state.file { file.adopted(stream, request, isDemanded: true) }
    }

    func yields() -> Bool {
        let file = state.withLock { $0.file }
        return file.map { $0.0.yields($0.1) } ?? false
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: range, isConditional: false, known: nil) {
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure): return failure
        case .range(let information): return begin(information, isWhole: false)
        case .whole(let information): return begin(information, isWhole: true)
        }
    }

    private func begin(_ information: ContentInformation, isWhole: Bool) -> OriginFailure? {
        let file: RemoteFile
        do throws(CacheError) {
            guard let opened = try files.openNow(url, information) else {
                return .interrupted("the last reader is just leaving")
            }
            file = opened
        } catch {
            services.logger.error("\(error)")
            return .wrongAnswer("the cache cannot hold it")
        }
        let asked = ByteRange(0, isWhole ? file.length : min(range!.upper, file.length))
        let stream = file.adopt(asked, isWhole: isWhole && range != nil)
        let state = state.withLock { state in
            state.file = (file, stream)
            state.isAnswered = true
            return state
        }
        link(state)
        file.began(stream, isWhole: false)
        tail?.join(file)
        completion(.file(file))
        return nil
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let state = state.withLock { $0 }
        if let (file, stream) = state.file { return file.arrived(stream, bytes) }
        return .stop
    }

    func ended(_ failure: OriginFailure?) {
        let state = state.withLock { $0 }
        if let (file, stream) = state.file {
            // First: a reader that sees the end may open the file anew, and is to find what it has become.
            if failure == nil { files.settle(file, stream, finished) }
            file.ended(stream, failure)
        }
        guard !state.isAnswered else { return }
        completion(.failure(failure ?? .interrupted("no answer")))
    }
}
