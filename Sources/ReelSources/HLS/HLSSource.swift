import ReelCore

/// An HLS playlist (RFC 8216): the file that its segments are together, or a file for each of its variants.
///
/// A playlist that is no file of exact length stays what it is, a file of text.
package struct HLSSource: Source {
    package static let kind = "hls"
    package static let fileExtensions: Set<String> = ["m3u8", "m3u"]
    package static let mediaTypes = PlaylistFormat.m3u.row.mediaTypes

    /// Ends the path of a URL that stands for the segments of a playlist, so that the cache can distinguish them
    /// from the playlist itself. No request has it.
    static let mark = ";joined"
    /// Path suffix for a local playlist: it has no URL, so its first segment's is used.
    static let localMark = ";joined-locally"

    package let root: SourcePlace
    /// Playlists without an end are files, too.
    private var mayGrow = false
    private let signatures = QuerySignatures()
    private let named = NamedOrigins()

    package init(root: SourcePlace) { self.root = root }

    /// A playlist on the disk has nobody who writes it on.
    package var growing: HLSSource {
        var source = self
        source.mayGrow = root.url != nil
        return source
    }

    package static func recognise(_ answer: SourceAnswer) -> HLSSource? {
        guard HLSPlaylist.isPlaylist(withoutByteOrderMark(answer.bytes)) else { return nil }
        return HLSSource(root: answer.place)
    }

    package var description: String { "playlist of segments (HLS)" }

    /// Its entries may lie anywhere.
    package func isQueue(_: SourcePlace) -> Bool { true }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        HLSReader(folder, known, self)
    }

    /// Resources are known by their URLs without signatures, and asked for with the newest that a playlist has.
    package func request(_ request: OriginRequest) -> OriginRequest { signatures.sign(request) }

    package var namedOrigins: Set<String> { named.all }

    package func joined(_ url: ResourceURL) -> JoinedFile? {
        let playlist: SourcePlace
        if url.path.hasSuffix(Self.mark) {
            playlist = .url(url.with(path: String(url.path.dropLast(Self.mark.count))))
        } else if root.url == nil, url.path.hasSuffix(Self.localMark) {
            playlist = root
        } else {
            return nil
        }
        return JoinedFile(playlist) { answer, isOver throws(SourceRefusal) in
            let list = try parse(answer, isOver)
            if let obstacle = list.obstacle { throw .useless(obstacle) }
            // Its pieces are other playlists: as a film it would be empty.
            if list.isMaster { throw .useless("it is a list of variants now") }
            remember(list)
            return PieceList(list.pieces, mediaType: list.mediaType, isGrowing: list.isGrowing)
        }
    }

    fileprivate func parse(
        _ answer: SourceAnswer, _ isOver: @escaping StopQuestion
    ) throws(SourceRefusal) -> HLSPlaylist {
        try HLSPlaylist.parse(answer.bytes, base: answer.base, mayGrow: mayGrow, isOver: isOver)
    }

    fileprivate func remember(_ list: HLSPlaylist) {
        signatures.add(list.signatures)
        named.add(list.namedOrigins)
    }

    /// What the file of a playlist is known by; nil where that is too long for a URL.
    static func url(joinedBy playlist: ResourceURL, mark: String = mark) -> ResourceURL? {
        playlist.text.utf8.count + mark.utf8.count <= ResourceURL.longest
            ? playlist.with(path: playlist.path + mark) : nil
    }
}

/// Reads a playlist and, if it is a master playlist, those of its variants, as only they say whether they are files.
private struct HLSReader: FolderReader {
    /// 50,000 segments with long URLs.
    let longestAnswer = 32 << 20

    private let place: SourcePlace
    private let known: EntryList?
    private let source: HLSSource
    private var body: AnswerBody
    private var status = 200
    /// nil until the root has come.
    private var variants: ArraySlice<HLSPlaylist.Variant>?
    private var entries = EntryList.Builder(limit: HLSPlaylist.mostVariants + 1)
    private var names = UniqueNames()
    /// Why something stays a playlist, the first reason of each.
    private var remarks: [String] = []
    private var isIncomplete = false

    init(_ place: SourcePlace, _ known: EntryList?, _ source: HLSSource) {
        (self.place, self.known, self.source) = (place, known, source)
        body = AnswerBody(place)
    }

    mutating func start() -> FolderStep { .ask(.document(place)) }

    mutating func head(_ head: ResponseHead?) {
        status = head?.status ?? 200
        body.begin(head)
    }

    mutating func take(_ bytes: [UInt8]) { body.take(bytes) }

    mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        guard let variant = variants?.popFirst() else {
            let answer = try body.end()
            let list = try source.parse(answer, isOver)
            source.remember(list)
            guard list.isMaster else {
                add(list, as: place.url.map { HLSSource.url(joinedBy: $0) } ?? list.localURL, title: stem)
                return try finish()
            }
            variants = list.variants[...]
            return try next()
        }
        take(variant, isOver)
        return try next()
    }

    /// Asks for the next variant that may be a file.
    private mutating func next() throws(SourceRefusal) -> FolderStep {
        while let variant = variants?.first {
            if variant.hasSeparateSound {
                stay("the sound of \(SafeName.make(Array(variant.title.utf8))) is a playlist of its own")
                variants?.removeFirst()
                continue
            }
            body = AnswerBody(.url(variant.url))
            var request = OriginRequest(url: variant.url)
            // One variant that is gone takes the others not away.
            request.accepted = [200, 401, 403, 404, 410]
            return .ask(.origin(request))
        }
        return try finish()
    }

    private mutating func take(_ variant: HLSPlaylist.Variant, _ isOver: @escaping StopQuestion) {
        let title = SafeName.make(Array(variant.title.utf8))
        let place = HLSSource.url(joinedBy: variant.url)
        guard status == 200, let answer = try? body.end(), let list = try? source.parse(answer, isOver), !list.isMaster
        else {
            // It may come back.
            if let entry = known?.first(where: { $0.url == place }) {
                entries.append(entry)
            } else {
                stay("the playlist of \(title) is not to be had (status \(status))")
            }
            return
        }
        source.remember(list)
        add(list, as: place, title: title)
    }

    /// - Parameter joined: what the file that the segments are together is known by, nil if that would be too long.
    private mutating func add(_ list: HLSPlaylist, as joined: ResourceURL?, title: String) {
        if let obstacle = list.obstacle {
            return stay(variants == nil ? obstacle : "\(title): \(obstacle)")
        }
        guard let joined else { return stay("its URL is too long") }
        let name = names.claim(SafeName.make(Array("\(title).\(list.fileExtension)".utf8)), beside: entries)
        entries.append(SourceEntry(name: name, url: joined, isDirectory: false))
    }

    private mutating func stay(_ reason: String) {
        isIncomplete = true
        if remarks.count < 5 { remarks.append(reason) }
    }

    private mutating func finish() throws(SourceRefusal) -> FolderStep {
        if entries.count == 0, place.url == nil { throw .useless(remarks.joined(separator: "; ")) }
        if isIncomplete, let url = place.url {
            let name = titledName("", extension: "m3u8", at: url)
            entries.append(
                SourceEntry(name: names.claim(name, beside: entries), url: url, isDirectory: false))
        }
        let list = entries.list()
        let reason = remarks.isEmpty ? nil : "it stays a playlist: " + remarks.joined(separator: "; ")
        return .entries(known.map { list.named(as: $0) } ?? list, remark: reason)
    }

    /// The last segment of the playlist's place without its extension.
    private var stem: String {
        let (last, suffix) =
            switch place {
            case .url(let url): (url.lastSegment.isEmpty ? Array(url.host.utf8) : url.lastSegment, url.fileExtension)
            case .path(let path): (Array(path.utf8.split(separator: 0x2F).last ?? []), fileExtension(path))
            }
        let name = SafeName.make(last)
        return HLSSource.fileExtensions.contains(suffix) ? String(SafeName.split(name).stem) : name
    }
}

extension HLSPlaylist {
    /// What the file of a playlist on the disk is known by.
    fileprivate var localURL: ResourceURL? {
        pieces.first.flatMap { HLSSource.url(joinedBy: $0.url, mark: HLSSource.localMark) }
    }
}
