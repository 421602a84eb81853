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
    ///   - known: its entries as they were last listed: a member stays if the answer has only an error for it.
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
        let fits = stream.take(piece, &state)
        if let failure = state.failure { throw failure }
        guard fits else { throw .useless("the WebDAV answer has an element that is too long") }
    }

    /// - Returns: the members, once the document has come whole.
    mutating func finish() throws(SourceRefusal) -> EntryList {
        if !state.isDone { stream.finish(&state) }
        if let failure = state.failure { throw failure }
        guard state.isWhole else {
            throw state.hasRoot ? .cutShort : .foreign("the answer is no WebDAV multistatus")
        }
        return try state.members.list()
    }

    fileprivate struct State: Sendable {
        var members: DAVMembers
        private var path: [(name: String, element: Element)] = []
        private var namespaces = Namespaces()
        /// The text of the element at the end of `path`.
        private var value: [UInt8] = []
        /// The text of that element counts.
        private var hasValue = false
        private var response = DAVResponse()
        private var properties = DAVResponse.Properties()
        private var propertyStatus: Int64?
        private(set) var hasRoot = false
        private(set) var isWhole = false
        private(set) var failure: SourceRefusal?

        init(_ members: DAVMembers) { self.members = members }
    }

    fileprivate enum Element: Sendable {
        case multistatus, response, href, propstat, prop, status, resourcetype, collection, iscollection
        case length, modified, tag
        case other

        /// Whether it counts there. - Parameter parent: nil for the root.
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

    /// By the length of their names: at most two have the same.
    private static let elements: [[(name: [UInt8], element: Element)]] = {
        var result = [[(name: [UInt8], element: Element)]](repeating: [], count: 17)
        let all: [(String, Element)] = [
            ("multistatus", .multistatus), ("response", .response), ("href", .href), ("propstat", .propstat),
            ("prop", .prop), ("status", .status), ("resourcetype", .resourcetype), ("collection", .collection),
            ("iscollection", .iscollection), ("getcontentlength", .length), ("getlastmodified", .modified),
            ("getetag", .tag),
        ]
        for (name, element) in all { result[name.utf8.count].append((Array(name.utf8), element)) }
        return result
    }()

    fileprivate static func element(_ name: Slice<UnsafeBufferPointer<UInt8>>) -> Element {
        guard name.count < elements.count else { return .other }
        for candidate in elements[name.count] where candidate.name.elementsEqual(name) { return candidate.element }
        return .other
    }

    /// The most elements inside each other; six are needed.
    fileprivate static let deepest = 64
    /// The most in one response; servers send one, and all of them are in memory until the response ends.
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
        attributes.forEachNamespace { prefix, name in
            scopes.append((depth, Array(prefix), name.elementsEqual("DAV:".utf8)))
        }
        return scopes.count <= Self.most
    }

    mutating func close(depth: Int) {
        while let last = scopes.last, last.depth >= depth { scopes.removeLast() }
    }

    /// What the element is; `.other` where it is of another namespace.
    func element(_ name: String) -> MultiStatus.Element {
        var name = name
        return name.withUTF8 { name in
            let colon = name.firstIndex(of: UInt8(ascii: ":"))
            let prefix = name[..<(colon ?? 0)]
            guard scopes.last(where: { $0.prefix.elementsEqual(prefix) })?.isDAV == true else { return .other }
            return MultiStatus.element(name[(colon.map { $0 + 1 } ?? 0)...])
        }
    }
}

extension MultiStatus.State: MarkupHandler {
    var isDone: Bool { failure != nil || isWhole }

    mutating func start(_ name: String, _ attributes: MarkupAttributes) {
        // A tag inside of a text is probably a name with a `<` that was not escaped. The name is lost.
        hasValue = false
        let depth = path.count
        guard depth < MultiStatus.deepest, namespaces.open(attributes, depth: depth) else {
            return failure = .useless("the WebDAV answer is too deep")
        }
        var element = namespaces.element(name)
        if !element.counts(inside: path.last?.element) { element = .other }
        path.append((name, element))
        switch element {
        case .multistatus: hasRoot = true
        case .response: response = DAVResponse()
        case .propstat: (properties, propertyStatus) = (DAVResponse.Properties(), nil)
        case .resourcetype: properties.isCollection = properties.isCollection ?? false
        case .collection: properties.isCollection = true
        default: break
        }
        hasValue = element.hasText
        if hasValue { value.removeAll(keepingCapacity: true) }
        if !hasRoot { failure = .foreign("the answer is no WebDAV multistatus") }
    }

    mutating func text(_ bytes: ArraySlice<UInt8>) {
        guard hasValue, value.count <= MultiStatus.longestValue else { return }
        // One byte more than allowed marks the value as too long.
        value += bytes.prefix(MultiStatus.longestValue + 1 - value.count)
    }

    mutating func end(_ name: String) {
        // An end that nothing has begun ends nothing; one that comes too early ends what is inside as well.
        guard let place = path.lastIndex(where: { $0.name == name }) else { return }
        while path.count > place, !isDone { close(path.removeLast().element) }
        namespaces.close(depth: place)
    }

    private mutating func close(_ element: MultiStatus.Element) {
        let value = hasValue ? trimmedBytes(self.value[...]) : nil
        hasValue = false
        switch element {
        case .multistatus: isWhole = true
        case .response: failure = members.add(response)
        case .href:
            guard let value else { return }
            guard response.hrefs.count < MultiStatus.mostHrefs else {
                return failure = .useless("a response of the WebDAV answer names too many members")
            }
            response.hrefs.append(Array(value))
        case .status where path.last?.element == .propstat: propertyStatus = value.flatMap(statusCode)
        case .status: response.status = value.flatMap(statusCode)
        case .propstat:
            if let status = propertyStatus, (200...299).contains(status) {
                response.properties.complete(properties)
            }
        // Microsoft's, beside `resourcetype` or in its place.
        case .iscollection:
            let isSet = value?.elementsEqual("1".utf8) == true
            properties.isCollection = isSet ? true : properties.isCollection ?? false
        case .length: properties.length = value.flatMap { $0.isEmpty ? nil : decimal($0) }
        case .modified: properties.modified = value.flatMap(davDate)
        case .tag: properties.tag = value.flatMap { EntryTag($0) }
        case .prop, .resourcetype, .collection, .other: break
        }
    }
}

/// The code of `HTTP/1.1 200 OK`.
private func statusCode(_ line: ArraySlice<UInt8>) -> Int64? {
    let first = line.prefix { !isBlank($0) }
    return decimal(first) ?? decimal(line[first.endIndex...].drop(while: isBlank).prefix { !isBlank($0) })
}

/// RFC 1123 as RFC 4918 has it, and ISO 8601, which phodav sends.
private func davDate(_ text: ArraySlice<UInt8>) -> Int64? {
    if let date = httpDate(text) { return date }
    var cursor = ByteCursor(text)
    return cursor.listingDate()
}
