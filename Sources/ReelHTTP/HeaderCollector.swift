import ReelCore

/// Puts the header lines of one answer together, within limits: the origin decides what it sends, not what is kept.
struct HeaderCollector {
    enum Event: Equatable {
        case more
        /// The final answer's head is whole: `status` and `headers` are valid.
        case complete
        /// Lines behind the body, which say nothing that matters here.
        case trailer
        case refused(String)
    }

    /// All lines of one answer together, those of 1xx answers before it included. Real answers have some hundred bytes;
    /// the largest known, with policies and cookies, stay below 64 KiB.
    static let byteLimit = 256 << 10
    static let lineLimit = 512

    private(set) var status = 0
    private(set) var headers: [(name: String, value: String)] = []
    private(set) var isComplete = false
    private var bytes = 0
    private var lines = 0

    /// - Parameter line: one line as received, with its line end.
    mutating func take(_ line: UnsafeRawBufferPointer) -> Event {
        if isComplete { return .trailer }
        bytes += line.count
        lines += 1
        guard bytes <= Self.byteLimit, lines <= Self.lineLimit else { return .refused("the headers are too large") }
        let text = trimmed(String(decoding: line, as: UTF8.self))
        if text.isEmpty { return endOfHead() }
        if let code = statusCode(text) {
            (status, headers) = (code, [])
        } else if let colon = text.firstIndex(of: ":") {
            headers.append((asciiLowercased(trimmed(text[..<colon])), trimmed(text[text.index(after: colon)...])))
        } else if line.first == 0x20 || line.first == 0x09, let last = headers.indices.last {
            // A folded line goes on with the one before (RFC 9112, section 5.2).
            headers[last].value += " " + text
        } else {
            return .refused("a header without a colon")
        }
        return .more
    }

    private mutating func endOfHead() -> Event {
        if (100..<200).contains(status) && status != 101 {
            headers = []
            return .more
        }
        isComplete = true
        return .complete
    }

    /// `HTTP/1.1 206 Partial Content`: only the first line of an answer begins so, as no header's name holds a `/`.
    private func statusCode(_ text: String) -> Int? {
        guard asciiLowercased(text.prefix(5)) == "http/", let space = text.firstIndex(of: " ") else { return nil }
        return decimal(String(trimmed(text[space...]).prefix { $0 != " " })).map { Int(clamping: $0) }
    }
}
