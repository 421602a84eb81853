import ReelCore
import Synchronization

/// A list of files: plain text, M3U, PLS or XSPF, of an origin or of the local disk.
package struct PlaylistSource: Source {
    package static let kind = "list"
    package static let fileExtensions = Set(PlaylistFormat.allCases.flatMap(\.row.fileExtensions))
    package static let mediaTypes = Set(PlaylistFormat.allCases.flatMap(\.row.mediaTypes))

    package let root: SourcePlace
    private let format: PlaylistFormat?
    private let signatures = QuerySignatures()
    private let named = NamedOrigins()
    private let doubt = Doubt()

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
        DocumentReader(folder) { [signatures, named, doubt] answer, isOver throws(SourceRefusal) in
            guard let format = Self.format(of: answer) else {
                throw .foreign("it is no list of URLs (plain text, M3U, PLS or XSPF)")
            }
            let list = try Playlist.parse(answer.bytes, format: format, base: answer.base, isOver: isOver)
            // One that had entries before may have lost them: that is for the volume to believe or not.
            guard !list.entries.isEmpty || known != nil else { throw .useless("the list names no http(s) URL") }
            // Until then its entries stay, and are asked for as before.
            if !list.entries.isEmpty {
                // An XSPF says itself where it ends.
                let mayBeCut =
                    !answer.hasKnownEnd && format != .xspf && (known.map(list.entries.mayBegin) ?? false)
                guard doubt.settle(mayBeCut ? list.entries.count : nil) else {
                    signatures.add(list.signatures)
                    throw .cutShort
                }
                signatures.replace(with: list.signatures)
            }
            named.add(list.namedOrigins)
            return .entries(known.map { list.entries.named(as: $0) } ?? list.entries, remark: list.skipped.reason)
        }
    }

    /// An entry is known by its URL without its signature, and asked for with the newest that the list has.
    package func request(_ request: OriginRequest) -> OriginRequest { signatures.sign(request) }

    package var isSigned: Bool? { signatures.isSigned }

    package var namedOrigins: Set<String> { named.all }
}

/// Half of a list of lines looks like a whole one: where it may be cut, it is believed when as much of it comes again.
private final class Doubt: Sendable {
    /// The number of entries of the last list if that was not believed, else 0.
    private let last = Atomic(0)

    /// - Parameter entries: how many a list has that may be cut, nil for any other.
    /// - Returns: whether it is believed.
    func settle(_ entries: Int?) -> Bool {
        last.exchange(entries ?? 0, ordering: .relaxed) == entries || entries == nil
    }
}

extension EntryList {
    /// Whether it may be an older list without its end: it has fewer entries, or half of the last. Other
    /// URLs alone say nothing: each answer may have tokens of its own in them.
    fileprivate func mayBegin(_ older: EntryList) -> Bool {
        if count < older.count { return true }
        let last = url(at: count - 1)
        return !older.contains { $0.url == last } && older.contains { $0.url.text.utf8.starts(with: last.text.utf8) }
    }
}
