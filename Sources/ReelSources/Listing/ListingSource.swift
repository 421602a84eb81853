import ReelCore

/// A tree of directory listings as web servers make them. Each page says itself whether it is HTML or JSON.
package struct ListingSource: Source {
    package static let kind = "listing"
    package static let mediaTypes: Set = ["application/json", "application/xhtml+xml"]

    package let root: SourcePlace
    private let isJSON: Bool

    package init(root: SourcePlace) {
        self.root = root
        isJSON = false
    }

    private init(_ folder: ResourceURL, isJSON: Bool) {
        root = .url(folder)
        self.isJSON = isJSON
    }

    /// Its root is where a redirect has led, which its listings are remembered under.
    package static func recognise(_ answer: SourceAnswer) -> ListingSource? {
        answer.folder.map { ListingSource($0, isJSON: answer.mediaType?.hasSuffix("/json") == true) }
    }

    package var description: String { "directory listing (\(isJSON ? "JSON" : "HTML"))" }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        DocumentReader(folder) { answer, isOver throws(SourceRefusal) in
            guard let base = answer.base else { throw .foreign("a local file") }
            // Links count from where the page really was, as a browser sees it.
            let url = answer.folder.flatMap { $0 == folder.url ? $0 : nil } ?? base
            return .entries(try Listing.parse(answer.bytes, mediaType: answer.mediaType, url: url, isOver: isOver))
        }
    }
}
