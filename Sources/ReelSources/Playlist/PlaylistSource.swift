import ReelCore

/// A list of files: plain text, M3U, PLS or XSPF, of an origin or of the local disk.
package struct PlaylistSource: Source {
    package static let kind = "list"
    package static let fileExtensions = Set(PlaylistFormat.allCases.flatMap(\.row.fileExtensions))
    package static let mediaTypes = Set(PlaylistFormat.allCases.flatMap(\.row.mediaTypes))

    package let root: SourcePlace
    private let format: PlaylistFormat?
    private let signatures = QuerySignatures()
    private let named = NamedOrigins()

    package init(root: SourcePlace) {
        self.root = root
        format = nil
    }

    private init(_ root: SourcePlace, _ format: PlaylistFormat) {
        self.root = root
        self.format = format
    }

    package static func recognise(_ answer: SourceAnswer) -> PlaylistSource? {
        format(of: answer).map { PlaylistSource(answer.place, $0) }
    }

    private static func format(of answer: SourceAnswer) -> PlaylistFormat? {
        let suffix: String? =
            switch answer.place {
            case .url(let url): url.path.hasSuffix("/") ? nil : url.fileExtension
            case .path(let path): fileExtension(path)
            }
        return PlaylistFormat.detect(answer.bytes, mediaType: answer.mediaType, fileExtension: suffix)
    }

    package var description: String { "list of files" + (format.map { " (\($0.row.title))" } ?? "") }

    package func isQueue(_: SourcePlace) -> Bool { true }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        DocumentReader(folder) { [signatures, named] answer, isOver throws(SourceRefusal) in
            guard let format = Self.format(of: answer) else {
                throw .foreign("it is no list of URLs (plain text, M3U, PLS or XSPF)")
            }
            let list = try Playlist.parse(answer.bytes, format: format, base: answer.base, isOver: isOver)
            // One that had entries before may have lost them: that is for the volume to believe or not.
            guard !list.entries.isEmpty || known != nil else { throw .useless("the list names no http(s) URL") }
            // Until then its entries stay, and are asked for as before.
            if !list.entries.isEmpty { signatures.replace(with: list.signatures) }
            named.add(list.namedOrigins)
            return .entries(known.map { list.entries.named(as: $0) } ?? list.entries, remark: list.skipped.reason)
        }
    }

    /// An entry is known by its URL without its signature, and asked for with the newest that the list has.
    package func request(_ request: OriginRequest) -> OriginRequest { signatures.sign(request) }

    package var namedOrigins: Set<String> { named.all }
}
