import ReelCore
import Synchronization

/// The end of a media file, asked for together with its first bytes: the listing has told the length, and which version it
/// is will be known by the first answer. Until then its bytes are kept here.
final class TailTouch: OriginReceiver {
    private struct State {
        var request: OriginRequestID?
        var file: (RemoteFile, Ledger.StreamID)?
        /// What its head has told.
        var information: ContentInformation?
        var bytes: [UInt8] = []
        var isSent = false
        var isUnwanted = false
        var isOver = false
    }

    private let url: ResourceURL
    private let range: ByteRange
    private let services: Services
    private let state = Mutex(State())

    init(_ range: ByteRange, _ url: ResourceURL, _ services: Services) {
        self.url = url
        self.range = range
        self.services = services
    }

    func start() {
        let request = services.origin.start(
            OriginRequest(url: url, range: range, isDemanded: false, stallLimit: services.options.timeout), self)
        let state = state.withLock { state in
            state.request = request
            return state
        }
        if let (file, stream) = state.file { file.adopted(stream, request, isDemanded: false) }
        if state.isUnwanted { services.origin.cancel(request) }
    }

    /// The version is known. On the origin's thread.
    func join(_ file: RemoteFile) {
        let known = state.withLock { $0.information }
        guard known.map({ $0.isSameVersion(as: file.information) }) ?? true, let stream = file.adoptBeside(range) else {
            return cancel()
        }
        let state = state.withLock { state in
            defer { state.bytes = [] }
            state.file = (file, stream)
            return state
        }
        if let request = state.request { file.adopted(stream, request, isDemanded: false) }
        if state.isSent { file.sent(stream, isTimed: false) }
        if known != nil { file.began(stream, isWhole: false) }
        if !state.bytes.isEmpty { _ = state.bytes.withUnsafeBytes { file.arrived(stream, $0) } }
        if state.isOver { file.ended(stream, .cancelled) }
    }

    func cancel() {
        let request = state.withLock { state in
            services.counters.droppedBytes(state.bytes.count)
            state.isUnwanted = true
            state.bytes = []
            return state.request
        }
        if let request { services.origin.cancel(request) }
    }

    func sent() {
        let file = state.withLock { state in
            state.isSent = true
            return state.file
        }
        if let (file, stream) = file { file.sent(stream) }
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        let file = state.withLock { $0.file }
        switch judge(head, to: url, asked: range, isConditional: false, known: file?.0.information) {
        case .range(let information):
            state.withLock { $0.information = information }
            if let (file, stream) = file { file.began(stream, isWhole: false) }
            return nil
        case .failure(let failure): return failure
        // Whoever asks for the beginning finds that out too.
        case .whole, .unchanged: return .cancelled
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let (file, isUnwanted) = state.withLock { state in
            if state.file == nil, !state.isUnwanted { state.bytes += bytes }
            return (state.file, state.isUnwanted)
        }
        if file == nil, isUnwanted { services.counters.droppedBytes(bytes.count) }
        if let (file, stream) = file { return file.arrived(stream, bytes) }
        return isUnwanted ? .stop : .more
    }

    func ended(_ failure: OriginFailure?) {
        let file = state.withLock { state in
            state.isOver = true
            return state.file
        }
        if failure?.isContradiction ?? false { services.doubt(url) }
        // Nobody was promised these bytes: whoever waits for them by now asks in a way that is tried again.
        if let (file, stream) = file { file.ended(stream, .cancelled) }
    }
}
