import ReelCore

/// Reads an XML document that comes in pieces: hands to a `MarkupReader` what has come, up to the end of its last whole
/// tag, and keeps the rest. The handler is told the same however the document is cut.
///
/// It looks at each byte once, and finds the ends of tags as the reader does. So a piece costs what it holds, whatever
/// stands in it, and no more of the document is in memory than a piece and the tag or text that it ends in.
struct MarkupStream: Sendable {
    /// What came and was not read: it begins where a tag has ended.
    private var bytes: [UInt8] = []
    /// How many of them were looked at.
    private var seen = 0
    /// Where the last `<` of them stands.
    private var tag = 0
    private var state = State.text
    private let language: MarkupReader.Language

    /// Bytes of a tag, or of a text between two, that a reader has to wait for. No document that matters has such ones.
    static let longest = 1 << 20

    private enum State {
        case text
        /// Behind `<`.
        case open
        /// Of a start tag: its name, and what follows it.
        case name, gap, attribute, equals, value, bareValue
        case quoted(UInt8)
        case endTag
        /// `<!…` or `<?…`.
        case declaration
    }

    init(_ language: MarkupReader.Language) { self.language = language }

    var unread: Int { bytes.count }

    /// - Returns: false where a tag or a text is too long.
    mutating func take(_ piece: [UInt8], _ handler: some MarkupHandler) -> Bool {
        bytes += piece
        let end = look()
        if end > 0 {
            // A piece is short: it need not be stopped.
            var reader = MarkupReader(bytes[..<end], language, StopCheck { false })
            _ = reader.read(handler)
            bytes.removeFirst(end)
            seen -= end
            tag -= end
        }
        return bytes.count <= Self.longest
    }

    /// - Returns: behind the last tag that has ended; 0 where none has.
    private mutating func look() -> Int {
        var (end, state) = (0, state)
        bytes.withUnsafeBufferPointer { bytes in
            for place in seen..<bytes.count {
                let byte = bytes[place]
                switch next(state, byte, place, bytes) {
                case nil:
                    state = .text
                    end = place + 1
                case .open?:
                    state = .open
                    tag = place
                case let other?: state = other
                }
            }
        }
        (seen, self.state) = (bytes.count, state)
        return end
    }

    /// - Returns: nil where a tag ends with the byte.
    private func next(_ state: State, _ byte: UInt8, _ place: Int, _ bytes: UnsafeBufferPointer<UInt8>) -> State? {
        let isEnd = byte == UInt8(ascii: ">")
        switch state {
        case .text: return byte == UInt8(ascii: "<") ? .open : .text
        case .open:
            switch byte {
            case UInt8(ascii: "/"): return .endTag
            case UInt8(ascii: "!"), UInt8(ascii: "?"): return .declaration
            // A `<` that begins nothing is text.
            default: return isLetter(byte) || isXMLNameStart(byte) ? .name : next(.text, byte, place, bytes)
            }
        case .endTag: return isEnd ? nil : .endTag
        case .declaration:
            let text = UnsafeBufferPointer(rebasing: bytes[tag...place])
            return isEnd && isWholeDeclaration(text) ? nil : .declaration
        case .name: return isNameEnd(byte) ? next(.gap, byte, place, bytes) : .name
        case .gap:
            if isEnd { return nil }
            return isBlank(byte) || byte == UInt8(ascii: "/") ? .gap : .attribute
        case .attribute:
            if byte == UInt8(ascii: "=") { return .value }
            return isBlank(byte) ? .equals : isNameEnd(byte) ? next(.gap, byte, place, bytes) : .attribute
        case .equals:
            if byte == UInt8(ascii: "=") { return .value }
            return isBlank(byte) ? .equals : next(.gap, byte, place, bytes)
        case .value:
            if isBlank(byte) { return .value }
            let isQuote = byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'")
            return isQuote ? .quoted(byte) : next(.bareValue, byte, place, bytes)
        case .bareValue:
            return isEnd || isBlank(byte) ? next(.gap, byte, place, bytes) : .bareValue
        case .quoted(let quote): return byte == quote ? .gap : state
        }
    }
}

/// Whether the `>` at the end of it ends what begins with `<!` or `<?`.
private func isWholeDeclaration(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
    for (start, skipped, end) in [("<!--", 2, "-->"), ("<![CDATA[", 9, "]]>"), ("<?", 0, "?>")]
    where text.starts(with: start.utf8) {
        return text.count >= skipped + end.utf8.count && text.suffix(end.utf8.count).elementsEqual(end.utf8)
    }
    return true
}
