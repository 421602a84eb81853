import ReelCore

/// Lists the keys below one prefix (ListObjectsV2), page by page.
struct S3Reader: FolderReader {
    private let folder: ResourceURL?
    private let bucket: ResourceURL?
    /// The start of the folder's keys, decoded.
    private let prefix: [UInt8]
    /// Whether the folder must have a key: it is the prefix that the user named, and it is listed for the first time.
    private let isNew: Bool
    private let limit: Int
    /// Bytes of all pages together.
    private let longest: Int

    private var entries = EntryList.Builder()
    private var names = UniqueNames()
    /// The keys so far behind the prefix, those of folders with a slash; also those that no URL can name.
    private var taken: Set<[UInt8]> = []
    /// How many keys are longer than any URL: each time that one comes.
    private var unnamed = 0
    /// The marks of the pages that were asked for.
    private var marks: Set<[UInt8]> = []
    private var hasMarker = false
    private var page: [UInt8] = []
    /// Bytes of the pages so far.
    private var size = 0

    init(
        _ folder: ResourceURL?, bucket: ResourceURL?, isNew: Bool, limit: Int = Listing.mostEntries,
        longest: Int = 1 << 30
    ) {
        (self.folder, self.bucket, self.isNew, self.limit, self.longest) = (folder, bucket, isNew, limit, longest)
        let below = bucket.flatMap { bucket in folder?.suffix(below: bucket) } ?? []
        prefix = percentDecoded(Array(withoutS3Marks(String(decoding: below, as: UTF8.self)).utf8)[...])
    }

    // MARK: Asking

    mutating func start() throws(SourceRefusal) -> FolderStep { try ask(from: nil) }

    private func ask(from mark: [UInt8]?) throws(SourceRefusal) -> FolderStep {
        guard let folder, let bucket, folder.suffix(below: bucket) != nil else {
            throw .useless("it lies in no bucket")
        }
        // Sorted by name, as it is signed.
        var fields = [
            ("delimiter", [0x2F]), ("encoding-type", Array("url".utf8)), ("list-type", [0x32]), ("prefix", prefix),
        ]
        if let mark { fields.insert(("continuation-token", mark), at: 0) }
        let query = fields.map { $0.0 + "=" + String(decoding: s3Escaped($0.1[...]), as: UTF8.self) }
        let path = bucket.path == "/" ? "/" : String(bucket.path.dropLast())
        guard let url = ResourceURL(bucket.origin + path + "?" + query.joined(separator: "&")) else {
            throw .useless("its prefix or the mark of its next page is too long")
        }
        var request = OriginRequest(url: url)
        request.accepted = [200]
        return .ask(.origin(request))
    }

    // MARK: Answers

    mutating func head(_ head: ResponseHead?) { page = [] }
    mutating func take(_ bytes: [UInt8]) { page += bytes }

    mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        size += page.count
        guard size <= longest else { throw .useless("its listing has more than \(longest >> 20) MiB") }
        let listed = try S3Page(page, isOver)
        page = []
        var stop = StopCheck(isOver)
        for object in listed.objects {
            if stop.step() { throw .stopped }
            try add(object)
        }
        for prefix in listed.prefixes {
            if stop.step() { throw .stopped }
            try addFolder(of: listed.decoded(prefix))
        }
        guard listed.isTruncated else {
            if isNew, entries.count == 0, !hasMarker, !prefix.isEmpty {
                throw .useless("no key of the bucket begins with that prefix")
            }
            return .entries(entries.list())
        }
        // A mark that comes again would lead round in a circle.
        guard let mark = listed.token, marks.insert(mark).inserted else { throw .cutShort }
        return try ask(from: mark)
    }

    private mutating func add(_ object: S3Page.Object) throws(SourceRefusal) {
        guard object.key.starts(with: prefix), !object.key.isEmpty else { return }
        let rest = object.key[prefix.count...]
        // A server that knows no delimiter also lists the keys of inner folders.
        if rest.contains(0x2F) { return try addFolder(of: object.key) }
        // Tools that make folders write an empty object for the folder itself.
        if rest.isEmpty, object.length ?? 0 == 0 {
            hasMarker = true
            return
        }
        try add(rest, isDirectory: false, object)
    }

    /// - Parameter key: a key in the folder, or the start of one.
    private mutating func addFolder(of key: [UInt8]) throws(SourceRefusal) {
        guard key.starts(with: prefix), let slash = key[prefix.count...].firstIndex(of: 0x2F) else { return }
        try add(key[prefix.count..<slash], isDirectory: true, S3Page.Object())
    }

    private mutating func add(
        _ rest: ArraySlice<UInt8>, isDirectory: Bool, _ object: S3Page.Object
    ) throws(SourceRefusal) {
        let end: [UInt8] = isDirectory ? [0x2F] : []
        if rest.count > ResourceURL.longest {
            unnamed += 1
        } else if !taken.insert(rest + end).inserted {
            return
        }
        guard taken.count + unnamed <= limit else { throw .tooManyEntries }
        guard let url = folder?.child(s3Path(rest) + end, query: nil) else { return }
        let name = names.claim(SafeName.make(rest), beside: entries)
        entries.append(
            SourceEntry(
                name: name, url: url, isDirectory: isDirectory, length: object.length, modified: object.modified),
            tag: object.tag)
    }
}
