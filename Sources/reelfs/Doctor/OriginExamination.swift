import ReelCore
import ReelHTTP
import ReelSources
import ReelThreads
import ReelVolume

/// The questions of `reelfs doctor` to an origin, in order. Their answers are facts, which `Diagnosis` judges.
struct OriginExamination {
    private var probe: DoctorProbe
    /// Connections that the transport has opened so far.
    private let connections: () -> Int64

    /// Bytes and time of each of the three measurements: together less than a minute of film.
    private static let stageBytes: Int64 = 8 << 20
    private static let stageTime = Duration.milliseconds(1500)
    /// A few packets do not show how fast a line is.
    private static let leastBytes: Int64 = 512 << 10
    /// The limit of a mount.
    fileprivate static let mostOfDocument = SourceAnswer.limit
    /// The limit of a directory further down, which the user has not named: some thousand files.
    private static let mostOfInner = 1 << 20
    /// Pieces of a joined file whose lengths are asked for: a request each.
    private static let mostPieces = 16
    /// Listings to read until a media file is found.
    private static let depth = 3

    /// - Parameter limit: of one answer.
    init(_ origin: CurlOrigin, limit: Duration) {
        probe = DoctorProbe(origin: origin, limit: limit)
        connections = { origin.counters.connections }
    }

    /// The outcome of ``source(_:)``.
    enum Discovery {
        /// - Parameter first: the answer to the first request for the file, if it was sent.
        case found(SourceFacts, file: ExaminedFile?, first: OriginFacts.Probe?)
        case failed(OriginFacts.Probe)
    }

    /// Finds out the kind of the URL as a mount does, and chooses a file to examine.
    /// - Parameter own: what a scheme of its own says it is.
    mutating func source(_ url: ResourceURL, own: (any Source)? = nil) -> Discovery {
        let requests = ExaminationRequests(self)
        let search = SourceSearch(SourceKinds.all, requests)
        switch own.map({ search.open($0, isFile: false) }) ?? search.find(.url(url)) {
        case .found(let (source, _)) where source is FileSource:
            return .found(.file, file: source.root.url.map { ExaminedFile(url: $0) }, first: requests.first)
        case .found(let (source, listed)): return found(source, listed)
        case .refused(let refusal):
            let type = requests.document.map { $0.head?.mediaType ?? "of no type" } ?? own?.description
            return .found(.page(refusal.isForeign ? type ?? refusal.reason : refusal.reason), file: nil, first: nil)
        case .failure(let failure):
            if let first = requests.first, case .failure(failure) = first.outcome { return .failed(first) }
            return .failed(OriginFacts.Probe(outcome: .failure(failure)))
        }
    }

    private mutating func found(_ source: any Source, _ listed: Listed) -> Discovery {
        let file = chosen(listed.entries, of: source)
        probe.source = source
        let facts = SourceFacts.tree(
            kind: source.description, entries: listed.entries.count, chosen: file?.name, remark: listed.remark)
        return .found(facts, file: file.flatMap { resource($0.url, of: source) }, first: nil)
    }

    /// What can be asked for of a file: for one that is joined of pieces, the piece in the middle.
    private func resource(_ url: ResourceURL, of source: any Source) -> ExaminedFile? {
        guard let joined = source.joined(url) else { return ExaminedFile(url: url) }
        guard let playlist = joined.playlist.url else { return nil }
        let request = OriginRequest(url: playlist)
        guard case .success(let (head, bytes)) = probe.document(request, most: Self.mostOfDocument),
            let list = try? joined.pieces(SourceAnswer(joined.playlist, head, bytes), { false })
        else { return nil }
        guard !list.pieces.isEmpty else { return nil }
        let middle = list.pieces[list.pieces.count / 2].url
        return ExaminedFile(url: middle, joinedLength: length(of: list.pieces))
    }

    /// The length of all pieces, estimated from some of them if they are many; nil if one does not tell its own.
    private func length(of pieces: [PieceList.Piece]) -> Int64? {
        let whole = pieces.filter { $0.range == nil }
        let known = pieces.reduce(Int64(0)) { $0 &+ ($1.range?.count ?? 0) }
        let asked = min(whole.count, Self.mostPieces)
        guard asked > 0 else { return known }
        var sum = 0.0
        for number in 0..<asked {
            let probe = probe.inquire(whole[number * whole.count / asked].url, ByteRange(0, 1))
            guard case .success(let information) = probe.outcome, let length = information.length else { return nil }
            sum += Double(length)
        }
        return known &+ Int64(min(sum / Double(asked) * Double(whole.count), 1e18))
    }

    /// The first media file here, or in the first directory; else any file, the nearest.
    private func chosen(_ entries: EntryList, of source: any Source) -> SourceEntry? {
        var entries = entries
        var other: SourceEntry?
        for level in 1...Self.depth {
            let files = entries.indices.lazy.filter { [entries] in !entries.isDirectory(at: $0) }
            if let media = files.first(where: { MediaName.isMedia(entries.name(at: $0)) }) { return entries[media] }
            other = other ?? files.first.map { entries[$0] }
            guard level < Self.depth, let folder = entries.indices.first(where: { entries.isDirectory(at: $0) }),
                case .found(let inner) = list(source, .url(entries.url(at: folder)), most: Self.mostOfInner)
            else { break }
            entries = inner.entries
        }
        return other
    }

    fileprivate typealias Listed = (entries: EntryList, remark: String?)

    /// More pages than a look needs.
    private static let mostRequests = 100

    /// Lists a folder as a mount does. - Parameter first: an answer that need not be asked for again.
    fileprivate func list(
        _ source: any Source, _ folder: SourcePlace, first: SourceAnswer? = nil, most: Int
    ) -> SourceOutcome<Listed> {
        let end = now() + probe.limit
        var reader = source.list(folder, known: nil)
        var first = first
        do throws(SourceRefusal) {
            var step = try reader.start()
            for _ in 0..<Self.mostRequests {
                // A mount asks for them to find extensions, which no check needs.
                if case .beginnings(_, let then) = step {
                    step = then([:])
                    continue
                }
                guard case .ask(let asked) = step, let request = asked.sent else { break }
                var answer = first.flatMap { $0.answers(asked) ? $0 : nil }
                first = nil
                if answer == nil {
                    switch probe.document(source.request(request), most: most) {
                    case .failure(let failure): return .failure(failure)
                    case .success(let (head, bytes)): answer = SourceAnswer(folder, head, bytes)
                    }
                }
                try reader.head(answer?.head)
                try reader.take(answer?.bytes ?? [])
                step = try reader.end { now() > end }
            }
            if case .entries(let entries, let remark) = step { return .found((entries, remark)) }
            return .refused(.useless("it has too many pages"))
        } catch {
            return .refused(error)
        }
    }

    fileprivate func document(at url: ResourceURL) -> Result<(head: ResponseHead, bytes: [UInt8]), OriginFailure> {
        probe.document(OriginRequest(url: url), most: Self.mostOfDocument)
    }

    /// Examines one file.
    /// - Parameter first: the answer that came already. Later requests go to the target of its redirect directly.
    func file(_ file: ExaminedFile, first: OriginFacts.Probe?) -> OriginFacts {
        let url = file.url
        var facts = OriginFacts(url: url, first: first ?? inquire(url))
        facts.joinedLength = file.joinedLength
        guard case .success(let information) = facts.first.outcome else { return facts }
        let before = connections()
        if information.acceptsRanges, let length = information.length, length > 1 {
            facts.second = probe.inquire(url, ByteRange(length - 1, length))
            facts.keepsConnections = connections() == before
        } else if information.length != 0 {
            facts.second = inquire(url)
            facts.keepsConnections = false
        }
        if let second = facts.second {
            guard case .success(let again) = second.outcome, again.isSameVersion(as: information) else { return facts }
        }
        // The time that the origin takes before it sends does not count.
        let patience = max(facts.first.latency, facts.second?.latency ?? .zero) * 2
        facts.speeds = speeds(url, information, within: Self.stageTime + min(patience, .seconds(10)))
        return facts
    }

    /// Asks for the first byte; for all of an empty file, which has none.
    func inquire(_ url: ResourceURL) -> OriginFacts.Probe {
        let first = probe.inquire(url, ByteRange(0, 1), connects: true)
        guard case .failure(.status(416, _)) = first.outcome else { return first }
        return probe.inquire(url, nil)
    }

    private func speeds(
        _ url: ResourceURL, _ information: ContentInformation, within time: Duration
    ) -> [OriginFacts.Speed] {
        let length = information.length ?? .max
        guard length >= Self.leastBytes else { return [] }
        guard information.acceptsRanges, information.length != nil else {
            let speed = probe.speed(url, [nil], information, within: time, most: Self.stageBytes)
            let isSmall = speed.failure == nil && speed.received < Self.leastBytes && speed.elapsed < Self.stageTime / 2
            return isSmall ? [] : [speed]
        }
        var speeds: [OriginFacts.Speed] = []
        // A file server wants a login for each connection, and allows few.
        let counts = url.fileProtocol == nil ? [1, 2, 4] : [1]
        for (stage, count) in counts.enumerated() {
            let ranges = speedRanges(stage: stage, connections: count, length: length, bytes: Self.stageBytes)
            let speed = probe.speed(url, ranges, information, within: time, most: Self.stageBytes)
            speeds.append(speed)
            if speed.failure != nil { break }
        }
        return speeds
    }

    /// Asks a shared cache for the file. - Returns: nil where the file is not below the source, or has no bytes.
    func examine(
        _ cache: SharedCache, _ file: ResourceURL, of source: ResourceURL, _ information: ContentInformation,
        _ alignment: Int64
    ) -> SharedCacheFacts? {
        guard let length = information.length, length > 0, let place = cache.place(of: file, in: source) else {
            return nil
        }
        return probe.examine(cache, place, file, length, alignment: alignment)
    }
}

/// What is asked for of a file that a mount shows.
struct ExaminedFile {
    var url: ResourceURL
    /// Bytes of all pieces; nil if the file is not joined of pieces, or they do not tell.
    var joinedLength: Int64?
}

/// The requests for the kind of a source, each sent once, and without a memory.
private final class ExaminationRequests: SourceRequests {
    private let examination: OriginExamination
    /// The answer to the request for content information, nil if there was none.
    private(set) var first: OriginFacts.Probe?
    private(set) var document: SourceAnswer?

    init(_ examination: OriginExamination) { self.examination = examination }

    var wasTree: Bool { false }
    var wasFile: Bool { false }

    func information(of url: ResourceURL) -> Result<ContentInformation, OriginFailure>? {
        let probe = examination.inquire(url)
        first = probe
        return probe.outcome
    }

    func found(_: ContentInformation, of _: ResourceURL) {}

    func document(at place: SourcePlace) -> SourceOutcome<SourceAnswer> {
        guard let url = place.url else { return .refused(.foreign("it is a file of this machine")) }
        switch examination.document(at: url) {
        case .failure(let failure): return .failure(failure)
        case .success(let (head, bytes)):
            let answer = SourceAnswer(place, head, bytes)
            document = answer
            return .found(answer)
        }
    }

    func list(_ source: any Source, first: SourceAnswer?) -> SourceOutcome<OriginExamination.Listed> {
        examination.list(source, source.root, first: first, most: OriginExamination.mostOfDocument)
    }
}

/// The range of each connection of a stage. If the file is long enough, no earlier stage has read these bytes, as
/// servers and proxies are quicker with bytes that they have just sent.
func speedRanges(stage: Int, connections: Int, length: Int64, bytes: Int64) -> [ByteRange] {
    let whole = min(bytes, length)
    let start = length >= bytes * Int64(stage + 1) ? bytes * Int64(stage) : 0
    let share = whole / Int64(connections)
    return (0..<connections).map { number in
        let lower = start + Int64(number) * share
        return ByteRange(lower, lower + share)
    }
}
