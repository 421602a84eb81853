import ReelCore
import ReelThreads

/// Fetches the end of a media file, which players ask for right after its beginning: together with the first bytes if
/// the listing has the length, else once the first answer has come.
///
/// The version is known from the first answer. Until then the bytes of the end are kept here.
final class TailPrefetch: OriginReceiver {
    private struct State {
        var file: (RemoteFile, Ledger.StreamID)?
        /// From the head of its answer.
        var information: ContentInformation?
        var bytes: [UInt8] = []
        var place = AnswerPlace.origin
        var isSent = false
        var isUnwanted = false
        var isOver = false
    }

    private let url: ResourceURL
    private let range: ByteRange
    private let services: Services
    private let handle = RequestHandle()
    private let state = Lock(State())

    /// Before anything but the listing is known. nil where the node is no media file, has no length, or is short, and
    /// where the mount's budget is spent, where a second place costs a login, and where a shared cache keeps bytes by
    /// their version, which is not known yet.
    init?(_ node: Node, _ url: ResourceURL, _ services: Services) {
        guard Self.isWorth(url), services.tails.isWorth(url.fileExtension), services.upstream.mirrors?.shared == nil,
            let length = node.listed.length, let range = Self.range(node.name, nil, length, services.options.alignment),
            services.budget.withLock({ $0.spend(range.count, on: .tail, now: now()) })
        else { return nil }
        self.url = url
        self.range = range
        self.services = services
    }

    /// Once the version is known: asks for the bytes that are neither there nor under way.
    static func start(_ file: RemoteFile, of node: Node) {
        if file.isComplete { return }
        // The first bytes, if they are there, show better what a program reads next.
        file.lookAtHead()
        guard isWorth(file.url), file.layout.container == nil, file.services.tails.isWorth(file.url.fileExtension),
            let range = range(
                node.name, file.information.mediaType, file.length, file.services.options.alignment)
        else { return }
        file.prefetch([range], as: .tail)
    }

    /// FTP takes another login for a second place of a file.
    private static func isWorth(_ url: ResourceURL) -> Bool { url.fileProtocol != .ftp }

    /// From the start of a piece of an aligned request; nil where the beginning is in the same piece.
    private static func range(
        _ name: String, _ mediaType: String?, _ length: Int64, _ alignment: Int64
    ) -> ByteRange? {
        let isMedia =
            MediaName.isMedia(name) || mediaType.map { $0.hasPrefix("video/") || $0.hasPrefix("audio/") } ?? false
        guard isMedia, let tail = Readahead.tail(of: length) else { return nil }
        let lower = tail.lower / alignment * alignment
        return lower > 0 ? ByteRange(lower, tail.upper) : nil
    }

    func start() {
        let request = OriginRequest(
            url: url, range: range, isDemanded: false, reason: .tail, stallLimit: services.options.timeout)
        services.origin.start(handle, request, self)
    }

    /// The version is known. Called by a receiver, so that no answer comes at the same time.
    func join(_ file: RemoteFile) {
        let known = state.withLock { $0.information }
        guard known.map({ $0.isSameVersion(as: file.information) }) ?? true,
            let stream = file.adoptBeside(handle, range)
        else { return cancel() }
        let state = state.withLock { state in
            defer { state.bytes = [] }
            state.file = (file, stream)
            return state
        }
        if state.isSent { file.sent(stream, isTimed: false) }
        if known != nil { file.began(stream, isWhole: false) }
        if !state.bytes.isEmpty {
            _ = state.bytes.withUnsafeBytes { file.arrived(stream, $0, from: state.place) }
        }
        if state.isOver { file.ended(stream, .cancelled, of: url) }
    }

    func cancel() {
        state.withLock { state in
            services.counters.droppedBytes(state.bytes.count)
            state.isUnwanted = true
            state.bytes = []
        }
        handle.cancel()
    }

    var program: String? { state.withLock { $0.file?.0 }?.program }

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
        // The request for the beginning finds that out too.
        case .whole, .unchanged: return .cancelled
        }
    }

    func asked(_ place: AnswerPlace) { state.withLock { $0.place = place } }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let (file, isUnwanted, place) = state.withLock { state in
            if state.file == nil, !state.isUnwanted { state.bytes += bytes }
            return (state.file, state.isUnwanted, state.place)
        }
        if let (file, stream) = file { return file.arrived(stream, bytes, from: place) }
        if isUnwanted { services.counters.droppedBytes(bytes.count) }
        return isUnwanted ? .stop : .more
    }

    func ended(_ failure: OriginFailure?) {
        let file = state.withLock { state in
            state.isOver = true
            return state.file
        }
        if failure?.meaning.isContradiction ?? false { services.doubt(url) }
        // Ends as cancelled, not as failed: a read that waits for these bytes by now starts a request of its own.
        if let (file, stream) = file { file.ended(stream, .cancelled, of: url) }
    }
}
