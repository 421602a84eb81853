import ReelCore

/// What a `MarkupReader` finds in a document, in its order.
protocol MarkupHandler {
    /// - Parameter name: of HTML in lower case; of XML without its prefix, or as `Language` says.
    mutating func start(_ name: String, _ attributes: MarkupAttributes)
    mutating func end(_ name: String)
    /// A piece of text, references such as `&amp;` replaced.
    mutating func text(_ bytes: ArraySlice<UInt8>)
    /// The document has a document type.
    mutating func documentType()
    /// Asked after each tag: true ends the reading.
    var isDone: Bool { get }
}

extension MarkupHandler {
    func documentType() {}
}

/// The attributes of one start tag.
struct MarkupAttributes {
    fileprivate var pairs: [(name: ArraySlice<UInt8>, value: ArraySlice<UInt8>)] = []

    /// No listing has more, or longer ones, that matter: the rest is left out.
    static let most = 100
    static let longest = 64 << 10

    /// The value of the first attribute of that name, references replaced; nil if there is no such attribute.
    /// - Parameter name: in lower case.
    subscript(_ name: String) -> [UInt8]? {
        pairs.first { isSame($0.name, name) }.map { decoded($0.value) }
    }

    /// The declarations of namespaces: their prefixes, empty for the default, and names.
    func forEachNamespace(_ take: (_ prefix: ArraySlice<UInt8>, _ name: [UInt8]) -> Void) {
        for pair in pairs where pair.name.starts(with: "xmlns".utf8) {
            let prefix = pair.name.dropFirst(5)
            if prefix.isEmpty || prefix.first == UInt8(ascii: ":") { take(prefix.dropFirst(), decoded(pair.value)) }
        }
    }

    private func decoded(_ value: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        withoutReferences(value) { result += $0 }
        return result
    }
}

/// Reads HTML, or XML in UTF-8, as tags and texts. Broken markup is read as far as it makes sense: no tag needs its
/// end, and none is made up.
///
/// The reader passes the bytes once, looks at each a few times at most, and keeps nothing of what it has read: no tree,
/// no stack, no entity but those of the language. A parser that builds on the nesting or compares the attributes of a
/// tag with each other takes time that grows with the square of a hostile page, and cannot be stopped inside a tag;
/// listings need neither.
struct MarkupReader {
    enum Language {
        case html, xml
        /// XML whose names keep their prefixes, for a handler that knows the namespaces.
        case prefixedXML
    }

    private let language: Language
    private var stop: StopCheck
    private var cursor: ByteCursor
    private var attributes = MarkupAttributes()
    /// More of the document may follow.
    private let isPart: Bool
    /// The bytes end inside the tag that was read last.
    private var isCut = false

    /// What was read last has to be read again, with what follows.
    private var waits: Bool { isPart && isCut }

    /// - Parameter isPart: it is the beginning of a document, or of what is left of one, and may end anywhere.
    init(_ document: ArraySlice<UInt8>, _ language: Language, isPart: Bool = false, _ stop: StopCheck) {
        self.language = language
        self.isPart = isPart
        self.stop = stop
        cursor = ByteCursor(document)
    }

    /// What is not read: of a part, the tag or text that it ends in.
    var rest: ArraySlice<UInt8> { cursor.rest }

    /// - Returns: false where it was stopped.
    mutating func read(_ handler: inout some MarkupHandler) -> Bool {
        while !cursor.isAtEnd, !handler.isDone {
            if stop.step() { return false }
            var start = cursor
            let text = cursor.take { $0 != UInt8(ascii: "<") }
            isCut = cursor.isAtEnd
            if !waits {
                if !text.isEmpty { withoutReferences(text) { handler.text($0) } }
                start = cursor
                if !cursor.isAtEnd { readTag(&handler) }
            }
            if waits {
                cursor = start
                break
            }
        }
        return !stop.isStopped
    }

    /// Reads what begins with the `<` that is next.
    private mutating func readTag(_ handler: inout some MarkupHandler) {
        let second = cursor.peek(1)
        if isNameStart(second) {
            readStart(&handler)
        } else if second == UInt8(ascii: "/") {
            cursor.take(count: 2)
            let name = takeName()
            take(to: ">")
            if name.first.map(isNameStart) == true, !waits { handler.end(text(of: name)) }
        } else if starts("<!--") {
            // `<!-->` is a whole one.
            cursor.take(count: 2)
            take(to: "-->")
        } else if language != .html, starts("<![CDATA[") {
            cursor.take(count: 9)
            let text = take(to: "]]>")
            if !text.isEmpty, !waits { handler.text(text) }
        } else if second == UInt8(ascii: "!") {
            if starts("<!doctype") { handler.documentType() }
            take(to: ">")
        } else if second == UInt8(ascii: "?") {
            take(to: language == .html ? ">" : "?>")
        } else if isPart, cursor.rest.count == 1 {
            isCut = true
        } else {
            handler.text(cursor.take(count: 1))
        }
    }

    private mutating func readStart(_ handler: inout some MarkupHandler) {
        cursor.take(count: 1)
        let name = text(of: takeName())
        guard let isEmpty = takeAttributes() else { return isCut = true }
        handler.start(name, attributes)
        if isEmpty, language != .html { handler.end(name) }
        if language == .html, name == "script" || name == "style" { skipRawText(of: name) }
    }

    /// Takes the rest of a tag.
    /// - Returns: whether it ends in `/>`; nil where the document ends before that, or its reading is stopped.
    private mutating func takeAttributes() -> Bool? {
        attributes.pairs.removeAll(keepingCapacity: true)
        while !stop.step() {
            let blanks = cursor.take { isBlank($0) || $0 == UInt8(ascii: "/") }
            if cursor.take(UInt8(ascii: ">")) { return blanks.last == UInt8(ascii: "/") }
            guard !cursor.isAtEnd else { return nil }
            // A `=` where a name should be is a part of it.
            let rest = cursor.rest
            cursor.take(count: 1)
            cursor.take { !isNameEnd($0) && $0 != UInt8(ascii: "=") }
            let name = rest[..<cursor.rest.startIndex]
            cursor.take(while: isBlank)
            var value: ArraySlice<UInt8> = []
            if cursor.take(UInt8(ascii: "=")) {
                cursor.take(while: isBlank)
                let quote = cursor.peek()
                if quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") {
                    cursor.take(quote)
                    value = cursor.take { $0 != quote }
                    guard cursor.take(quote) else { return nil }
                } else {
                    value = cursor.take { !isBlank($0) && $0 != UInt8(ascii: ">") }
                }
            }
            if attributes.pairs.count < MarkupAttributes.most, value.count <= MarkupAttributes.longest {
                attributes.pairs.append((name, value))
            }
        }
        return nil
    }

    /// What a script or style holds is no markup up to its end tag.
    private mutating func skipRawText(of name: String) {
        while !stop.step() {
            cursor.take { $0 != UInt8(ascii: "<") }
            if cursor.isAtEnd { return }
            var ahead = cursor
            ahead.take(count: 1)
            if ahead.take(UInt8(ascii: "/")), text(of: ahead.take { !isNameEnd($0) }) == name { return }
            cursor.take(count: 1)
        }
    }

    // MARK: Pieces

    private func starts(_ text: String) -> Bool { isSame(cursor.rest.prefix(text.utf8.count), text) }

    /// Takes all that is left, and is cut, where there is no such text. - Returns: what stands before it.
    @discardableResult
    private mutating func take(to text: String) -> ArraySlice<UInt8> {
        let rest = cursor.rest
        while !cursor.isAtEnd {
            cursor.take { $0 != text.utf8.last }
            cursor.take(count: 1)
            let taken = rest[..<cursor.rest.startIndex]
            if taken.suffix(text.utf8.count).elementsEqual(text.utf8) { return taken.dropLast(text.utf8.count) }
        }
        isCut = true
        return rest
    }

    private mutating func takeName() -> ArraySlice<UInt8> { cursor.take { !isNameEnd($0) } }

    /// No element that matters has a longer name than 64 bytes.
    private func text(of name: ArraySlice<UInt8>) -> String {
        guard name.count <= 64 else { return "" }
        if language == .html { return asciiLowercased(name) }
        let colon = language == .xml ? name.lastIndex(of: UInt8(ascii: ":")) : nil
        let local = colon.map { name[($0 + 1)...] } ?? name
        return String(decoding: local, as: UTF8.self)
    }

    private func isNameStart(_ byte: UInt8) -> Bool {
        isLetter(byte) || (language != .html && isXMLNameStart(byte))
    }
}

/// True for what begins a name of XML, letters of ASCII apart.
func isXMLNameStart(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "_") || byte >= 0x80 }

func isNameEnd(_ byte: UInt8) -> Bool { isBlank(byte) || byte == 0x2F || byte == 0x3E }

/// - Parameter text: bytes that are compared as they are or, those of `bytes` being capitals, in lower case.
private func isSame(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool {
    bytes.count == text.utf8.count
        && zip(bytes, text.utf8).allSatisfy { $0 == $1 || $0 | 0x20 == $1 && (0x41...0x5A).contains($0) }
}
