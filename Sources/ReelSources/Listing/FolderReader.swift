import ReelCore

/// Reads one folder of a source, once: says what to ask, and takes the answers as they come.
///
/// For each request that a step asks for, `head` is called, `take` for each piece of the body, and `end` when it came
/// whole. A request that broke off is made again, and begins with `head`: its first attempt is forgotten.
package protocol FolderReader: Sendable {
    /// Bytes of an answer: a longer one is a failure.
    var longestAnswer: Int { get }

    mutating func start() throws(SourceRefusal) -> FolderStep

    /// - Parameter head: nil for a local file.
    mutating func head(_ head: ResponseHead?) throws(SourceRefusal)
    mutating func take(_ bytes: [UInt8]) throws(SourceRefusal)

    /// - Parameter isOver: asked every so often where it takes long: true ends it with `SourceRefusal.stopped`.
    mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep
}

package typealias StopQuestion = @Sendable () -> Bool

package enum FolderStep: Sendable {
    case ask(SourceRequest)
    /// The folder is read. - Parameter remark: a sentence for whoever mounts it.
    case entries(EntryList, remark: String? = nil)
    /// The beginnings of files are wanted, many at once; the step that follows gets those that came, by URL. Files that
    /// do not answer are no failure.
    case beginnings([ResourceURL], then: @Sendable ([String: FileBeginning]) -> FolderStep)
}

/// What a reader asks for next.
package enum SourceRequest: Sendable {
    /// All bytes of a place. A document that is there already answers it, and so does "unchanged".
    case document(SourcePlace)
    /// A request of the source's own, which is sent in any case.
    case origin(OriginRequest)

    /// What is sent for it, nil for a local file.
    package var sent: OriginRequest? {
        switch self {
        case .document(.path): return nil
        case .document(.url(let url)):
            var request = OriginRequest(url: url)
            request.accepted = [200, 304]
            return request
        case .origin(let request): return request
        }
    }
}

/// Why an answer lists no folder. It is taken whole or not at all: a folder never shrinks because of an error.
package enum SourceRefusal: Error, Hashable, Sendable {
    /// It is no such document: a login, a captive portal, a document of another kind.
    case foreign(String)
    /// It is such a document, and cannot be used.
    case useless(String)
    /// It seems to end before its end.
    case cutShort
    /// Its time was over.
    case stopped

    static let notAListing = foreign("it is no directory listing")
    static let tooManyEntries = foreign("it lists more than a million entries")
    static let tooManyTracks = useless("the list names more than a million files")
    static let noXSPF = useless("the list is no XSPF, or not all of it")
    /// HLS, which lists pieces.
    static let isStream = useless("the list is one of the pieces of a stream")
}

/// Reads a folder that one document lists, once it has come whole.
package struct DocumentReader: FolderReader {
    private let place: SourcePlace
    private let parse: Parse
    private var body: AnswerBody

    package typealias Parse =
        @Sendable (SourceAnswer, _ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep

    package init(_ place: SourcePlace, parse: @escaping Parse) {
        self.place = place
        self.parse = parse
        body = AnswerBody(place)
    }

    package mutating func start() -> FolderStep { .ask(.document(place)) }
    package mutating func head(_ head: ResponseHead?) { body.begin(head) }
    package mutating func take(_ piece: [UInt8]) { body.take(piece) }

    package mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        try parse(try body.end(), isOver)
    }
}

/// Collects the body of an answer that is read once it has come whole.
struct AnswerBody {
    private let place: SourcePlace
    private var head: ResponseHead?
    private var bytes: [UInt8] = []

    /// - Parameter place: what is asked.
    init(_ place: SourcePlace) { self.place = place }

    mutating func begin(_ head: ResponseHead?) {
        self.head = head
        bytes = []
        // At once, as an array that grows is there twice for a moment. Memory that is not filled costs nothing.
        if let length = head?.contentLength, (0...Int64(SourceAnswer.limit)).contains(length) {
            bytes.reserveCapacity(Int(length))
        }
    }

    mutating func take(_ piece: [UInt8]) {
        // A document that is there already is not copied.
        if bytes.isEmpty, Int64(piece.count) >= head?.contentLength ?? 0 { bytes = piece } else { bytes += piece }
    }

    mutating func end() throws(SourceRefusal) -> SourceAnswer {
        let answer = SourceAnswer(place, head, bytes)
        bytes = []
        guard answer.isWhole else { throw .cutShort }
        return answer
    }
}

extension SourceAnswer {
    /// False where perhaps only the end of the connection ended it: it may be cut.
    var hasKnownEnd: Bool { head.map { $0["content-length"] != nil || $0["transfer-encoding"] != nil } ?? true }

    /// False where it may be cut, and does not end as a page does.
    fileprivate var isWhole: Bool {
        guard let head, !hasKnownEnd else { return true }
        let end = asciiLowercased(bytes.suffix(1024))
        return !isWebPage(head.mediaType) || end.contains("</html>") || end.contains("</body>")
    }
}

extension FolderReader {
    package var longestAnswer: Int { SourceAnswer.limit }

    /// Reads the folder from a document that is there already; nil if the folder takes other requests, or more.
    package mutating func read(
        _ answer: SourceAnswer, _ isOver: @escaping StopQuestion
    ) throws(SourceRefusal) -> FolderStep? {
        guard case .ask(let request) = try start(), answer.answers(request) else { return nil }
        try head(answer.head)
        try take(answer.bytes)
        return try end(isOver)
    }
}
