import ReelCore

/// The properties that a PROPFIND asks for (RFC 4918, sections 9.1 and 14.20).
package enum PropertyRequest: Equatable, Sendable {
    case all
    /// Their names alone.
    case names
    case some([PropertyName])

    var asksLength: Bool {
        switch self {
        case .all: true
        case .names: false
        case .some(let names): names.contains { $0.isDAV("getcontentlength") }
        }
    }

    /// What is asked for, and whether of the members of a folder as well.
    package typealias Question = (wanted: PropertyRequest, isDeep: Bool)

    /// Why a request is refused.
    package struct Refusal: Error {
        package var answer: ServedAnswer
    }

    /// Properties in one request, and bytes of their names with those of the namespaces: an answer repeats those that
    /// an entry does not have, for each entry.
    private static let most = 64
    private static let longest = 4 << 10

    /// Reads the body and `Depth`.
    /// - Returns: the question, or a refusal: 400, 403 (depth infinity, RFC 4918, section 9.1.1), 413.
    package static func read(_ request: ServedRequest) -> Result<Question, Refusal> {
        guard let body = request.body else {
            return .failure(
                Refusal(answer: ServedAnswer(413, saying: "A body has at most \(ServedCall.longestBody >> 10) KiB.")))
        }
        let isDeep: Bool
        switch asciiLowercased(trimmed(request["depth"] ?? "infinity")) {
        case "0": isDeep = false
        case "1": isDeep = true
        case "infinity":
            let error = "<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n"
            return .failure(Refusal(answer: ServedAnswer(403, DAVMethod.headers, .text(Array(error.utf8)))))
        default: return .failure(Refusal(answer: ServedAnswer(400, saying: "Depth is 0 or 1.")))
        }
        guard let wanted = PropertyRequest(body) else {
            return .failure(Refusal(answer: ServedAnswer(400, saying: "The body is no propfind that is read here.")))
        }
        return .success((wanted, isDeep))
    }

    /// nil if the body is no `propfind`, not well-formed, or asks for too much. An empty body asks for all.
    package init?(_ body: [UInt8]) {
        if body.allSatisfy(isBlank) {
            self = .all
            return
        }
        var reader = ElementReader(body)
        guard let elements = reader.elements(), let root = elements.first, root.name.isDAV("propfind") else {
            return nil
        }
        let children = elements.filter { $0.depth == 1 }
        // What is not known is ignored (RFC 4918, section 17), `include` among it: nothing is left out of `allprop`.
        if children.contains(where: { $0.name.isDAV("prop") }) {
            var names: [PropertyName] = []
            var isInside = false
            for element in elements {
                if element.depth == 1 { isInside = element.name.isDAV("prop") }
                if element.depth == 2, isInside, !names.contains(element.name) { names.append(element.name) }
            }
            let bytes = names.reduce(0) { $0 + $1.namespace.utf8.count + $1.local.utf8.count }
            guard names.count <= Self.most, bytes <= Self.longest else { return nil }
            self = .some(names)
        } else if children.contains(where: { $0.name.isDAV("propname") }) {
            self = .names
        } else if children.contains(where: { $0.name.isDAV("allprop") }) {
            self = .all
        } else {
            return nil
        }
    }
}

/// The name of a property: an element's, with the name of its namespace.
package struct PropertyName: Equatable, Sendable {
    /// Empty for none.
    package var namespace: String
    package var local: String

    package init(_ namespace: String, _ local: String) {
        self.namespace = namespace
        self.local = local
    }

    func isDAV(_ name: String) -> Bool { namespace == "DAV:" && local == name }
}

/// Reads the elements of a short XML document in UTF-8, strictly: each tag needs its end, and each prefix its
/// declaration (XML 1.0; Namespaces in XML 1.0). Texts are passed over. A document type, a CDATA section, and a
/// reference in an attribute are refused: no client's `propfind` needs them.
private struct ElementReader {
    struct Element {
        var name: PropertyName
        /// 0 for the root.
        var depth: Int
    }

    private var rest: ArraySlice<UInt8>
    private var open: [(tag: String, scopes: Int)] = []
    private var scopes: [(prefix: String, namespace: String)] = []
    private static let deepest = 16
    private static let mostScopes = 64
    private static let mostElements = 1000

    init(_ document: [UInt8]) {
        rest = document.starts(with: [0xEF, 0xBB, 0xBF]) ? document[3...] : document[...]
    }

    /// In the order of their starts; nil if the document is not well-formed.
    mutating func elements() -> [Element]? {
        var elements: [Element] = []
        while !rest.isEmpty {
            let text = rest.prefix { $0 != UInt8(ascii: "<") }
            guard !open.isEmpty || text.allSatisfy(isBlank) else { return nil }
            rest = rest[text.endIndex...]
            if rest.isEmpty { break }
            if rest.starts(with: "<?".utf8) {
                guard skip(past: "?>") else { return nil }
            } else if rest.starts(with: "<!--".utf8) {
                rest = rest.dropFirst(4)
                guard skip(past: "-->") else { return nil }
            } else if rest.starts(with: "</".utf8) {
                rest = rest.dropFirst(2)
                guard let tag = takeName(), let last = open.popLast(), last.tag == tag else { return nil }
                scopes.removeLast(scopes.count - last.scopes)
                skipBlanks()
                guard take(">") else { return nil }
            } else {
                guard elements.isEmpty || !open.isEmpty, elements.count < Self.mostElements,
                    let element = readStart()
                else { return nil }
                elements.append(element)
            }
        }
        return open.isEmpty ? elements : nil
    }

    private mutating func readStart() -> Element? {
        rest = rest.dropFirst()
        let (depth, before) = (open.count, scopes.count)
        guard depth < Self.deepest, let tag = takeName() else { return nil }
        while true {
            let blanks = rest.prefix(while: isBlank)
            rest = rest[blanks.endIndex...]
            let isEmpty = take("/")
            if take(">") {
                guard let name = name(tag) else { return nil }
                if isEmpty { scopes.removeLast(scopes.count - before) } else { open.append((tag, before)) }
                return Element(name: name, depth: depth)
            }
            guard !isEmpty, !blanks.isEmpty, let attribute = takeName() else { return nil }
            skipBlanks()
            guard take("=") else { return nil }
            skipBlanks()
            guard let value = takeValue() else { return nil }
            let parts = attribute.split(separator: ":", omittingEmptySubsequences: false)
            guard parts[0] == "xmlns" else { continue }
            // Only the default one can be taken back.
            guard scopes.count < Self.mostScopes, parts.count == 1 || !value.isEmpty else { return nil }
            scopes.append((parts.count == 1 ? "" : String(parts[1]), value))
        }
    }

    private func name(_ tag: String) -> PropertyName? {
        let parts = tag.split(separator: ":", omittingEmptySubsequences: false)
        let prefix = parts.count == 1 ? "" : String(parts[0])
        let scope = scopes.last { $0.prefix == prefix }
        guard scope != nil || prefix.isEmpty else { return nil }
        return PropertyName(scope?.namespace ?? "", String(parts[parts.count - 1]))
    }

    /// A name in ASCII with at most one colon, which has something on both sides.
    private mutating func takeName() -> String? {
        let bytes = rest.prefix { isDigit($0) || isLetter($0) || ":-_.".utf8.contains($0) }
        rest = rest[bytes.endIndex...]
        let name = String(decoding: bytes, as: UTF8.self)
        let parts = name.split(separator: ":", omittingEmptySubsequences: false)
        let areNames = parts.allSatisfy { part in
            part.utf8.first.map { isLetter($0) || $0 == UInt8(ascii: "_") } ?? false
        }
        return parts.count <= 2 && areNames ? name : nil
    }

    private mutating func takeValue() -> String? {
        guard let quote = rest.popFirst(), quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return nil }
        let bytes = rest.prefix { $0 != quote }
        rest = rest[bytes.endIndex...].dropFirst()
        guard bytes.endIndex < rest.endIndex, !bytes.contains(UInt8(ascii: "&")), !bytes.contains(UInt8(ascii: "<"))
        else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    private mutating func take(_ character: String) -> Bool {
        guard rest.starts(with: character.utf8) else { return false }
        rest = rest.dropFirst(character.utf8.count)
        return true
    }

    private mutating func skipBlanks() { rest = rest.drop(while: isBlank) }

    private mutating func skip(past end: String) -> Bool {
        guard let range = rest.firstRange(of: Array(end.utf8)) else { return false }
        rest = rest[range.upperBound...]
        return true
    }
}
