import ReelCore

/// Puts the header lines of one answer together, within limits on what an origin may make the program keep.
struct HeaderCollector {
    enum Event: Equatable {
        case more
        /// The final answer's head is whole: `status` and `headers` are valid.
        case complete
        /// A line behind the body; its content does not matter here.
        case trailer
        case refused(String)
    }

    /// Bytes of all lines of one answer, with 1xx answers before it and trailers behind it. Real answers have some
    /// hundred bytes; the largest known, with policies and cookies, stay below 64 KiB.
    static let byteLimit = 256 << 10
    static let lineLimit = 512

    private(set) var status = 0
    private(set) var headers: [(name: String, value: String)] = []
    private(set) var isComplete = false
    private var bytes = 0
    private var lines = 0

    /// Takes one line. - Parameter line: as received, with its line end.
    mutating func take(_ line: UnsafeRawBufferPointer) -> Event {
        bytes += line.count
        lines += 1
        guard bytes <= Self.byteLimit, lines <= Self.lineLimit else { return .refused("the headers are too large") }
        if isComplete { return .trailer }
        if line.allSatisfy(isBlank) { return endOfHead() }
        if let code = statusCode(line) {
            (status, headers) = (code, [])
        } else if let colon = line.firstIndex(of: UInt8(ascii: ":")) {
            headers.append((asciiLowercased(text(line[..<colon])), text(line[(colon + 1)...])))
        } else if isBlank(line[0]), let last = headers.indices.last {
            // A folded line goes on with the one before (RFC 9112, section 5.2).
            headers[last].value += " " + text(line[...])
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

    /// The status in `HTTP/1.1 206 Partial Content`; nil for a header, whose name holds no `/`.
    private func statusCode(_ line: UnsafeRawBufferPointer) -> Int? {
        guard line.count > 5, asciiLowercased(text(line[..<5])) == "http/" else { return nil }
        let words = line.split(separator: 0x20, maxSplits: 2)
        return words.count > 1 ? decimal(text(words[1])).map { Int(clamping: $0) } : nil
    }

    private func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        let end = bytes.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? bytes.startIndex
        return String(decoding: bytes[..<end].drop(while: isBlank), as: UTF8.self)
    }
}
