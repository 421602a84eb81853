import ReelCore

/// One `response` of a multistatus.
struct DAVResponse: Sendable {
    /// The references as they were sent; several share one status.
    var hrefs: [[UInt8]] = []
    /// The status of the whole, nil if each property has its own.
    var status: Int64?
    var properties = Properties()

    struct Properties: Sendable {
        /// nil if the answer does not say.
        var isCollection: Bool?
        /// Bytes.
        var length: Int64?
        /// Seconds since 1970.
        var modified: Int64?
        var tag: EntryTag?

        /// Adds the properties that are missing; the first value of each one stays.
        mutating func complete(_ other: Properties) {
            isCollection = isCollection ?? other.isCollection
            length = length ?? other.length
            modified = modified ?? other.modified
            tag = tag ?? other.tag
        }
    }
}

/// Gathers the members of one folder from the answer to its PROPFIND.
///
/// An href counts by its path alone: behind a proxy servers write hosts and schemes of their own. It is cut at its
/// slashes, decoded once and compared byte by byte with the folder's path, so no spelling of it leads out of the
/// folder. `?` and `#` are parts of names, as a member has no query, and some servers do not escape them.
struct DAVMembers: Sendable {
    private let directory: ListingDirectory
    private let segments: [[UInt8]]
    private let known: EntryList?
    private var merge: ListingMerge
    private var isNamed = false
    /// What the answer says of the folder itself; true counts, as some servers give its name to members as well.
    private var isCollection: Bool?
    private var others = 0

    init(of folder: ResourceURL, known: EntryList?, limit: Int) {
        directory = ListingDirectory(folder)
        segments = DAVMembers.segments(of: Array(directory.url.path.utf8)[...]).map { percentDecoded($0) }
        self.known = known
        merge = ListingMerge(of: directory.url, limit: limit)
    }

    var count: Int { merge.count }

    /// - Returns: why the answer is of no use, nil if it is of use so far.
    mutating func add(_ response: DAVResponse) -> SourceRefusal? {
        let isTold = response.status.map { (200...299).contains($0) } ?? true
        for href in response.hrefs {
            switch target(of: href[...]) {
            case .folder:
                isNamed = true
                isCollection = isCollection == true ? true : response.properties.isCollection ?? isCollection
                if !isTold { return .useless("the server cannot list the WebDAV collection (\(response.status ?? 0))") }
            case .elsewhere: others += 1
            case .member(let segment, let name, let endsInSlash):
                // Gone while the server made the answer.
                if response.status == 404 || response.status == 410 { continue }
                add(segment, name, endsInSlash: endsInSlash, response.properties, isTold: isTold)
                if merge.isTooLarge { return .tooManyEntries }
            }
        }
        return nil
    }

    private mutating func add(
        _ segment: ArraySlice<UInt8>, _ name: [UInt8], endsInSlash: Bool, _ properties: DAVResponse.Properties,
        isTold: Bool
    ) {
        // An error takes nothing away: what is known of the member stays.
        let isMissing = !isTold || properties.isCollection == nil
        let old = isMissing ? known.flatMap { list in list.place(of: SafeName.make(name)).map { list[$0] } } : nil
        let isDirectory = properties.isCollection ?? old?.isDirectory ?? endsInSlash
        guard let link = directory.child(segment, name, isDirectory) else { return }
        var facts = ListingFacts()
        facts.length = properties.length ?? old?.length
        facts.modified = properties.modified ?? old?.modified
        merge.add(link, facts, tag: properties.tag)
    }

    func list() throws(SourceRefusal) -> EntryList {
        let list = merge.list()
        if !list.isEmpty { return list }
        if isCollection == false { throw .foreign("it is a file, and no WebDAV collection") }
        // An empty folder is named all the same.
        if !isNamed {
            throw .foreign(others > 0 ? "the WebDAV answer tells of other folders" : "the WebDAV answer tells nothing")
        }
        return list
    }

    private enum Target {
        case folder
        /// - Parameter segment: as it was sent; `name` is decoded.
        case member(_ segment: ArraySlice<UInt8>, name: [UInt8], endsInSlash: Bool)
        case elsewhere
    }

    private func target(of href: ArraySlice<UInt8>) -> Target {
        // An empty reference is the place that was asked (RFC 3986, section 5.2.2).
        if href.isEmpty { return .folder }
        guard href.count <= ResourceURL.longest, let path = path(of: href) else { return .elsewhere }
        var parts = DAVMembers.segments(of: path)[...]
        if path.first == 0x2F {
            guard parts.count >= segments.count, zip(parts, segments).allSatisfy({ percentDecoded($0) == $1 }) else {
                return .elsewhere
            }
            parts = parts.dropFirst(segments.count)
        }
        guard let segment = parts.first else { return .folder }
        let name = percentDecoded(segment)
        guard parts.count == 1, name != [0x2E], name != [0x2E, 0x2E] else { return .elsewhere }
        return .member(segment, name: name, endsInSlash: path.last == 0x2F)
    }

    /// What stands behind the host, nil if nothing does.
    private func path(of href: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let scheme = URLParts.scheme(of: href), ["http", "https"].contains(asciiLowercased(scheme)) else {
            return href
        }
        let rest = href[(scheme.endIndex + 1)...]
        guard rest.starts(with: [0x2F, 0x2F]) else { return rest }
        return rest.dropFirst(2).firstIndex(of: 0x2F).map { rest[$0...] }
    }

    /// Without the empty ones: servers double slashes.
    private static func segments(of path: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] { path.split(separator: 0x2F) }
}
