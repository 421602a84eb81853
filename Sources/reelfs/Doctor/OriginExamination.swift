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
    /// A few packets do not tell how fast a line is.
    private static let leastBytes: Int64 = 512 << 10
    /// The limit of a mount.
    private static let mostOfDocument = SourceAnswer.limit
    /// The limit of a directory further down, which the user has not named: some thousand files.
    private static let mostOfInner = 1 << 20
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
        case found(SourceFacts, file: ResourceURL?, first: OriginFacts.Probe?)
        case failed(OriginFacts.Probe)
    }

    /// Finds out the kind of the URL, with a mount's requests in a mount's order, and chooses a file to examine.
    /// - Parameter own: what a scheme of its own says it is.
    mutating func source(_ url: ResourceURL, own: (any Source)? = nil) -> Discovery {
        if let own {
            switch list(own, own.root, most: Self.mostOfDocument) {
            case .success(let listed): return found(own, listed)
            case .failure(.origin(let failure)):
                if let file = own.file, failure.maySayFile {
                    let probe = inquire(file)
                    if case .success = probe.outcome { return .found(.file, file: file, first: probe) }
                }
                return .failed(OriginFacts.Probe(outcome: .failure(failure)))
            case .failure(.refused(let reason)): return .found(.page(reason ?? own.description), file: nil, first: nil)
            }
        }
        var first: OriginFacts.Probe?
        if !SourceKinds.all.expectDocument(at: url) {
            let probe = inquire(url)
            first = probe
            guard case .success(let information) = probe.outcome else { return refused(url, probe) }
            guard SourceKinds.all.expectDocument(of: information.mediaType),
                information.length ?? 0 <= Int64(Self.mostOfDocument)
            else { return .found(.file, file: url, first: first) }
        }
        switch tree(url, most: Self.mostOfDocument) {
        case .failure(let failure): return refused(url, OriginFacts.Probe(outcome: .failure(failure)))
        case .success(.page) where !url.path.hasSuffix("/") && !isWebPageName(url):
            return .found(.file, file: url, first: first)
        case .success(.page(let reason)): return .found(.page(reason), file: nil, first: nil)
        case .success(.tree(let source, let listed)): return found(source, listed)
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
    private func resource(_ url: ResourceURL, of source: any Source) -> ResourceURL? {
        guard let joined = source.joined(url) else { return url }
        guard let playlist = joined.playlist.url else { return nil }
        let request = OriginRequest(url: playlist)
        guard case .success(let (head, bytes)) = probe.document(request, most: Self.mostOfDocument),
            let list = try? joined.pieces(SourceAnswer(joined.playlist, head, bytes), { false })
        else { return nil }
        return list.pieces.isEmpty ? nil : list.pieces[list.pieces.count / 2].url
    }

    /// Where a plain GET is refused: what the kinds that have requests of their own make of it.
    private mutating func refused(_ url: ResourceURL, _ probe: OriginFacts.Probe) -> Discovery {
        guard case .failure(.status(let status, _)) = probe.outcome else { return .failed(probe) }
        for source in SourceKinds.all.lazy.compactMap({ $0.recognise(url, refusedWith: status) }) {
            if case .success(let listed) = list(source, source.root, most: Self.mostOfDocument) {
                return found(source, listed)
            }
        }
        return .failed(probe)
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
                case .success(let inner) = list(source, .url(entries.url(at: folder)), most: Self.mostOfInner)
            else { break }
            entries = inner.entries
        }
        return other
    }

    private typealias Listed = (entries: EntryList, remark: String?)

    private enum Document {
        case tree(any Source, Listed)
        case page(String)
    }

    /// Reads a document as a directory of some kind of source. - Parameter most: bytes.
    private func tree(_ url: ResourceURL, most: Int) -> Result<Document, OriginFailure> {
        probe.document(OriginRequest(url: url), most: most).map { answer in
            let document = SourceAnswer(.url(url), answer.head, answer.bytes)
            var reason = answer.head.mediaType ?? "of no type"
            for kind in SourceKinds.all where kind != FileSource.self {
                guard let source = kind.recognise(document) else { continue }
                switch list(source, source.root, first: document, most: most) {
                case .success(let listed): return .tree(source, listed)
                case .failure(.refused(let text)): reason = text ?? reason
                case .failure(.origin): break
                }
            }
            return .page(reason)
        }
    }

    private enum Trouble: Error {
        case origin(OriginFailure)
        /// nil: it is of another kind.
        case refused(String?)
    }

    /// More pages than a look needs.
    private static let mostRequests = 100

    /// Lists a folder as a mount does. - Parameter first: an answer that need not be asked for again.
    private func list(
        _ source: any Source, _ folder: SourcePlace, first: SourceAnswer? = nil, most: Int
    ) -> Result<Listed, Trouble> {
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
                    case .failure(let failure): return .failure(.origin(failure))
                    case .success(let (head, bytes)): answer = SourceAnswer(folder, head, bytes)
                    }
                }
                try reader.head(answer?.head)
                try reader.take(answer?.bytes ?? [])
                step = try reader.end { now() > end }
            }
            if case .entries(let entries, let remark) = step { return .success((entries, remark)) }
            return .failure(.refused("it has too many pages"))
        } catch {
            switch error {
            case .useless(let text): return .failure(.refused(text))
            case .stopped: return .failure(.refused("it takes too long to read"))
            case .foreign, .cutShort: return .failure(.refused(nil))
            }
        }
    }

    /// Examines one file.
    /// - Parameter first: the answer that came already. Later requests go to the target of its redirect directly.
    func file(_ url: ResourceURL, first: OriginFacts.Probe?) -> OriginFacts {
        var facts = OriginFacts(url: url, first: first ?? inquire(url))
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

    private func isWebPageName(_ url: ResourceURL) -> Bool { ["", "html", "htm", "php"].contains(url.fileExtension) }
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
