import ReelCore

/// One file, in a folder of its own.
package struct FileSource: Source {
    package static let kind = "file"

    package let root: SourcePlace
    private let information: ContentInformation?

    package init(root: SourcePlace) {
        self.root = root
        information = nil
    }

    /// - Parameter information: from an answer for that URL.
    package init(_ url: ResourceURL, _ information: ContentInformation) {
        root = .url(url)
        self.information = information
    }

    package static func recognise(_ answer: SourceAnswer) -> FileSource? {
        guard let url = answer.place.url, !url.path.hasSuffix("/"), let head = answer.head else { return nil }
        return FileSource(url, ContentInformation(length: head.contentLength, validator: head.validator))
    }

    package var description: String { "file" }
    package func isQueue(_: SourcePlace) -> Bool { true }
    package func longestAge(of _: SourcePlace, refresh: Duration) -> Duration? { nil }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        guard let url = folder.url else { return Reader(entries: EntryList([])) }
        let name = url.lastSegment.isEmpty ? Array(url.host.utf8) : url.lastSegment
        return Reader(
            entries: EntryList([
                SourceEntry(
                    name: SafeName.make(name), url: url, isDirectory: false, length: information?.length,
                    modified: information?.validator.lastModified)
            ]))
    }

    private struct Reader: FolderReader {
        let entries: EntryList

        func start() -> FolderStep { .entries(entries) }
        func head(_: ResponseHead?) {}
        func take(_: [UInt8]) {}
        func end(_: @escaping StopQuestion) -> FolderStep { .entries(entries) }
    }
}
