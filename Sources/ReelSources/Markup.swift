import ReelCore

/// What a `MarkupReader` tells of a document, in its order.
protocol MarkupHandler: AnyObject {
    /// - Parameter name: of HTML in lower case; of XML without its prefix.
    func start(_ name: String, _ attributes: MarkupAttributes)
    func end(_ name: String)
    /// A piece of text, references such as `&amp;` replaced.
    func text(_ bytes: ArraySlice<UInt8>)
    /// The document has a document type.
    func documentType()
    /// Asked after each tag: true ends the reading.
    var isDone: Bool { get }
}

extension MarkupHandler {
    func documentType() {}
}

/// The attributes of one start tag.
struct MarkupAttributes {
    fileprivate let document: ArraySlice<UInt8>
    fileprivate var pairs: [(name: Range<Int>, value: Range<Int>)] = []

    /// No listing has more, or longer ones, that matter: what is beyond is not told.
    static let most = 100
    static let longest = 64 << 10

    /// The value of the first attribute of that name, references replaced; nil where there is no such attribute.
    /// - Parameter name: in lower case.
    subscript(_ name: String) -> [UInt8]? {
        let found = pairs.first { pair in
            pair.name.count == name.utf8.count && zip(document[pair.name], name.utf8).allSatisfy { lowered($0) == $1 }
        }
        guard let value = found?.value else { return nil }
        var result: [UInt8] = []
        withoutReferences(document[value]) { result += $0 }
        return result
    }
}

/// Reads HTML, or XML in UTF-8, as tags and texts. Broken markup is read as far as it makes sense: no tag needs its end,
/// and none is made up.
///
/// One pass over the bytes, each looked at a few times at most, and nothing is kept of what was read: no tree, no stack,
/// no entity but those of the language. A parser that builds on the nesting or compares the attributes of a tag with each
/// other takes time that grows with the square of a hostile page, and cannot be stopped inside a tag; listings need
/// neither.
struct MarkupReader {
    enum Language { case html, xml }

    private let document: ArraySlice<UInt8>
    private let language: Language
    private var stop: StopCheck
    private var index: Int
    private var attributes: MarkupAttributes

    init(_ document: ArraySlice<UInt8>, _ language: Language, _ stop: StopCheck) {
        self.document = document
        self.language = language
        self.stop = stop
        index = document.startIndex
        attributes = MarkupAttributes(document: document)
    }

    /// - Returns: false where it was stopped.
    mutating func read(_ handler: some MarkupHandler) -> Bool {
        while index < document.endIndex, !handler.isDone {
            if stop.step() { return false }
            let tag = document[index...].firstIndex(of: UInt8(ascii: "<")) ?? document.endIndex
            if tag > index { withoutReferences(document[index..<tag], handler.text) }
            index = tag
            if tag < document.endIndex { readTag(handler) }
        }
        return !stop.isStopped
    }

    /// `index` is at a `<`.
    private mutating func readTag(_ handler: some MarkupHandler) {
        let second = document[safe: index + 1]
        if isNameStart(second) {
            readStart(handler)
        } else if second == UInt8(ascii: "/") {
            let name = nameRange(index + 2)
            skip(past: ">", from: name.upperBound)
            if isNameStart(document[safe: name.lowerBound]) { handler.end(self.name(name)) }
        } else if starts("<!--") {
            // `<!-->` is a whole one.
            skip(past: "-->", from: index + 2)
        } else if language == .xml, starts("<![CDATA[") {
            let start = index + 9
            let end = skip(past: "]]>", from: start)
            if end > start { handler.text(document[start..<end]) }
        } else if second == UInt8(ascii: "!") {
            if starts("<!doctype") { handler.documentType() }
            skip(past: ">", from: index + 2)
        } else if second == UInt8(ascii: "?") {
            skip(past: language == .xml ? "?>" : ">", from: index + 2)
        } else {
            handler.text(document[index...index])
            index += 1
        }
    }

    private mutating func readStart(_ handler: some MarkupHandler) {
        let name = self.name(nameRange(index + 1))
        attributes.pairs.removeAll(keepingCapacity: true)
        guard let isEmpty = readAttributes(from: nameRange(index + 1).upperBound) else {
            index = document.endIndex
            return
        }
        handler.start(name, attributes)
        if isEmpty, language == .xml { handler.end(name) }
        if language == .html, name == "script" || name == "style" { skipRawText(of: name) }
    }

    /// Leaves `index` behind the tag. - Returns: whether it ends in `/>`; nil where the document ends before it.
    private mutating func readAttributes(from start: Int) -> Bool? {
        var place = start
        while !stop.step() {
            let isEmpty = skipBlanks(&place)
            guard place < document.endIndex else { return nil }
            if document[place] == UInt8(ascii: ">") {
                index = place + 1
                return isEmpty
            }
            // A `=` where a name should be is a part of it.
            let name = place..<(end(place + 1) { isBlank($0) || $0 == 0x2F || $0 == 0x3E || $0 == 0x3D })
            place = name.upperBound
            var next = place
            while isBlank(document[safe: next]) { next += 1 }
            var value = place..<place
            if document[safe: next] == UInt8(ascii: "=") {
                next += 1
                while isBlank(document[safe: next]) { next += 1 }
                let quote = document[safe: next]
                if quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") {
                    value = next + 1..<(end(next + 1) { $0 == quote })
                    guard value.upperBound < document.endIndex else { return nil }
                    place = value.upperBound + 1
                } else {
                    value = min(next, document.endIndex)..<(end(next) { isBlank($0) || $0 == UInt8(ascii: ">") })
                    place = value.upperBound
                }
            }
            if attributes.pairs.count < MarkupAttributes.most, value.count <= MarkupAttributes.longest {
                attributes.pairs.append((name, value))
            }
        }
        return nil
    }

    /// - Returns: whether there was a `/` right before what follows.
    private func skipBlanks(_ place: inout Int) -> Bool {
        var isSlash = false
        while isBlank(document[safe: place]) || document[safe: place] == UInt8(ascii: "/") {
            isSlash = document[place] == UInt8(ascii: "/")
            place += 1
        }
        return isSlash
    }

    /// What a script or style holds is no markup up to its end tag.
    private mutating func skipRawText(of name: String) {
        while let end = document[index...].firstIndex(of: UInt8(ascii: "<")) {
            index = end
            if stop.step() { return }
            if document[safe: end + 1] == UInt8(ascii: "/"), self.name(nameRange(end + 2)) == name { return }
            index += 1
        }
        index = document.endIndex
    }

    // MARK: Places

    private func starts(_ text: String) -> Bool {
        let piece = document[index...].prefix(text.utf8.count)
        return piece.count == text.utf8.count && zip(piece, text.utf8).allSatisfy { $0 == $1 || lowered($0) == $1 }
    }

    /// The end of the document where there is no such text. - Returns: where the text starts.
    @discardableResult
    private mutating func skip(past text: String, from start: Int) -> Int {
        let last = text.utf8.last ?? 0
        let count = text.utf8.count
        var place = min(start, document.endIndex)
        while let found = document[place...].firstIndex(of: last) {
            place = found + 1
            if place - count >= start, document[(place - count)..<place].elementsEqual(text.utf8) {
                index = place
                return place - count
            }
        }
        index = document.endIndex
        return index
    }

    private func end(_ start: Int, where isEnd: (UInt8) -> Bool) -> Int {
        let start = min(start, document.endIndex)
        return document[start...].firstIndex(where: isEnd) ?? document.endIndex
    }

    private func nameRange(_ start: Int) -> Range<Int> {
        let start = min(start, document.endIndex)
        return start..<end(start) { isBlank($0) || $0 == 0x2F || $0 == 0x3E }
    }

    /// No element that matters has a longer name than 64 bytes.
    private func name(_ range: Range<Int>) -> String {
        guard range.count <= 64 else { return "" }
        let bytes = document[range]
        if language == .html { return asciiLowercased(String(decoding: bytes, as: UTF8.self)) }
        let local = bytes.lastIndex(of: UInt8(ascii: ":")).map { bytes[($0 + 1)...] } ?? bytes
        return String(decoding: local, as: UTF8.self)
    }

    private func isNameStart(_ byte: UInt8) -> Bool {
        (0x61...0x7A).contains(byte | 0x20) || (language == .xml && (byte == UInt8(ascii: "_") || byte >= 0x80))
    }
}

private func lowered(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
