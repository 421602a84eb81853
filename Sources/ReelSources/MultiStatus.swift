import ReelCore

/// Reads the answer to a PROPFIND with Depth 1 (RFC 4918, section 13) as it comes, and keeps the folder's members
/// alone.
///
/// Elements count by namespace, name and parent: an answer with all properties may hold others of the same name.
struct MultiStatus: Sendable {
    private var stream = MarkupStream(.prefixedXML)
    private var state: State

    /// - Parameters:
    ///   - folder: where the answer came from, with credentials.
    ///   - known: its entries as they were last listed: a member of which the answer tells only an error stays.
    init(of folder: ResourceURL, known: EntryList?, limit: Int = Listing.mostEntries) {
        state = State(DAVMembers(of: folder, known: known, limit: limit))
    }

    /// Members so far.
    var count: Int { state.members.count }

    /// Bytes that came and wait for the end of a tag.
    var unread: Int { stream.unread }

    mutating func take(_ piece: [UInt8]) throws(SourceRefusal) {
        // Nothing counts behind the end.
        if state.isWhole { return }
        let reading = MultiStatusReading(state)
        // Only one of both may hold the entries, as they would be copied otherwise.
        state.members = .none
        let fits = stream.take(piece, reading)
        state = reading.state
        if let failure = state.failure { throw failure }
        guard fits else { throw .useless("the WebDAV answer has an element that is too long") }
    }

    /// - Returns: the members, once the document has come whole.
    func finish() throws(SourceRefusal) -> EntryList {
        guard state.isWhole else {
            throw state.hasRoot ? .cutShort : .foreign("the answer is no WebDAV multistatus")
        }
        return try state.members.list()
    }

    fileprivate struct State: Sendable {
        var members: DAVMembers
        var path: [(name: String, element: Element)] = []
        var namespaces = Namespaces()
        /// Of the element at the end of `path`, where it is one whose text counts.
        var value: [UInt8]?
        var response = DAVResponse()
        var properties = DAVResponse.Properties()
        var propertyStatus: Int64?
        var hasRoot = false
        var isWhole = false
        var failure: SourceRefusal?

        init(_ members: DAVMembers) { self.members = members }
    }

    fileprivate enum Element: Sendable {
        case multistatus, response, href, propstat, prop, status, resourcetype, collection, iscollection
        case length, modified, tag
        case other

        /// Whether it counts there. - Parameter parent: nil: it is the root.
        func counts(inside parent: Element?) -> Bool {
            switch self {
            case .multistatus: parent == nil
            case .response: parent == .multistatus
            case .href, .propstat: parent == .response
            case .status: parent == .response || parent == .propstat
            case .prop: parent == .propstat
            case .resourcetype, .iscollection, .length, .modified, .tag: parent == .prop
            case .collection: parent == .resourcetype
            case .other: false
            }
        }

        var hasText: Bool {
            switch self {
            case .href, .status, .iscollection, .length, .modified, .tag: true
            default: false
            }
        }
    }

    fileprivate static let elements: [Substring: Element] = [
        "multistatus": .multistatus, "response": .response, "href": .href, "propstat": .propstat, "prop": .prop,
        "status": .status, "resourcetype": .resourcetype, "collection": .collection, "iscollection": .iscollection,
        "getcontentlength": .length, "getlastmodified": .modified, "getetag": .tag,
    ]

    /// Of elements inside each other; six are needed.
    fileprivate static let deepest = 64
    /// Of one response; servers send one, and all of them are in memory until the response ends.
    fileprivate static let mostHrefs = 1000
    /// Bytes of a value; no URL is longer.
    fileprivate static let longestValue = ResourceURL.longest
}

/// The prefixes that elements have declared (Namespaces in XML 1.0), as far as they are in force.
private struct Namespaces: Sendable {
    private var scopes: [(depth: Int, prefix: [UInt8], isDAV: Bool)] = []
    /// In force at a time: servers declare two or three.
    private static let most = 64

    /// - Returns: false where there are too many.
    mutating func open(_ attributes: MarkupAttributes, depth: Int) -> Bool {
        for (prefix, name) in attributes.namespaces {
            scopes.append((depth, Array(prefix), name.elementsEqual("DAV:".utf8)))
        }
        return scopes.count <= Self.most
    }

    mutating func close(depth: Int) {
        while let last = scopes.last, last.depth >= depth { scopes.removeLast() }
    }

    /// The local name of an element of WebDAV; nil: it is of another namespace.
    func local(_ name: String) -> Substring? {
        let colon = name.utf8.firstIndex(of: UInt8(ascii: ":"))
        let prefix = name.utf8[..<(colon ?? name.startIndex)]
        guard scopes.last(where: { $0.prefix.elementsEqual(prefix) })?.isDAV == true else { return nil }
        return colon.map { name[name.utf8.index(after: $0)...] } ?? name[...]
    }
}

private final class MultiStatusReading: MarkupHandler {
    var state: MultiStatus.State

    init(_ state: MultiStatus.State) { self.state = state }

    var isDone: Bool { state.failure != nil || state.isWhole }

    func start(_ name: String, _ attributes: MarkupAttributes) {
        // A tag inside of a text is probably a name with a `<` that was not escaped. The name is lost.
        state.value = nil
        let depth = state.path.count
        guard depth < MultiStatus.deepest, state.namespaces.open(attributes, depth: depth) else {
            return state.failure = .useless("the WebDAV answer is too deep")
        }
        var element = state.namespaces.local(name).flatMap { MultiStatus.elements[$0] } ?? .other
        if !element.counts(inside: state.path.last?.element) { element = .other }
        state.path.append((name, element))
        switch element {
        case .multistatus: state.hasRoot = true
        case .response: state.response = DAVResponse()
        case .propstat: (state.properties, state.propertyStatus) = (DAVResponse.Properties(), nil)
        case .resourcetype: state.properties.isCollection = state.properties.isCollection ?? false
        case .collection: state.properties.isCollection = true
        default: break
        }
        if element.hasText { state.value = [] }
        if !state.hasRoot { state.failure = .foreign("the answer is no WebDAV multistatus") }
    }

    func text(_ bytes: ArraySlice<UInt8>) {
        guard let count = state.value?.count, count <= MultiStatus.longestValue else { return }
        // One byte too many tells that it is too long.
        state.value! += bytes.prefix(MultiStatus.longestValue + 1 - count)
    }

    func end(_ name: String) {
        // An end that nothing has begun ends nothing; one that comes too early ends what is inside as well.
        guard let place = state.path.lastIndex(where: { $0.name == name }) else { return }
        while state.path.count > place, !isDone { close(state.path.removeLast().element) }
        state.namespaces.close(depth: place)
    }

    private func close(_ element: MultiStatus.Element) {
        let value = state.value.map { trimmedBytes($0[...]) }
        state.value = nil
        switch element {
        case .multistatus: state.isWhole = true
        case .response: state.failure = state.members.add(state.response)
        case .href:
            guard let value else { return }
            guard state.response.hrefs.count < MultiStatus.mostHrefs else {
                return state.failure = .useless("a response of the WebDAV answer names too many members")
            }
            state.response.hrefs.append(Array(value))
        case .status where state.path.last?.element == .propstat: state.propertyStatus = value.flatMap(statusCode)
        case .status: state.response.status = value.flatMap(statusCode)
        case .propstat:
            if let status = state.propertyStatus, (200...299).contains(status) {
                state.response.properties.complete(state.properties)
            }
        // Microsoft's, beside `resourcetype` or in its place.
        case .iscollection:
            let isSet = value?.elementsEqual("1".utf8) == true
            state.properties.isCollection = isSet ? true : state.properties.isCollection ?? false
        case .length: state.properties.length = value.flatMap { $0.isEmpty ? nil : decimal($0) }
        case .modified: state.properties.modified = value.flatMap(davDate)
        case .tag: state.properties.tag = value.flatMap { EntryTag($0) }
        case .prop, .resourcetype, .collection, .other: break
        }
    }
}

/// Of `HTTP/1.1 200 OK`.
private func statusCode(_ line: ArraySlice<UInt8>) -> Int64? {
    line.split(whereSeparator: isBlank).prefix(2).lazy.compactMap { decimal($0) }.first
}

/// RFC 1123 as RFC 4918 has it, and ISO 8601, which phodav sends.
private func davDate(_ text: ArraySlice<UInt8>) -> Int64? {
    if let date = httpDate(String(decoding: text, as: UTF8.self)) { return date }
    var cursor = ByteCursor(text)
    return cursor.listingDate()
}
