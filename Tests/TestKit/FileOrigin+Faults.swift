import ReelCore

extension FileOrigin {
    /// The ways in which an origin misbehaves. Counts of bytes are of the answer's body.
    package enum Fault: Sendable {
        /// Every range is answered with 200 and the whole file, and no range is said to be accepted.
        case noRanges
        /// 206 whose `Content-Range` and bytes begin one byte behind the asked place.
        case wrongContentRange
        /// 206 whose `Content-Range` gives a total one byte longer than the file.
        case wrongTotal
        /// 206 without any `Content-Range`.
        case noContentRange
        /// 200 and the whole file although ranges are said to be accepted.
        case wholeToRange
        /// 206 that announces the asked range and then sends the whole rest of the file, chunked.
        case tooLongBody
        /// The connection ends in good order before the announced length.
        case shortBody(after: Int64)
        case resetAfter(Int64)
        /// The connection stays open and silent.
        case stallAfter(Int64)
        /// Nothing is sent at all, not even a head.
        case silent
        case drip(piece: Int, pause: Duration)
        /// - retryAfter: the header's value in seconds.
        case status(Int, retryAfter: Int?)
        /// 302 to this place, absolute or relative.
        case redirect(to: String)
        /// 302 to the same path with a signature that answers `uses` requests and 403 from then on.
        case redirectExpires(uses: Int)
        /// 302 to itself.
        case redirectLoop
        /// Another entity tag with the same bytes; `If-Range` of the old tag gets 200.
        case changedETag
        /// `Content-Encoding: gzip`, with bytes that are none of the file's.
        case gzip
        case chunkedWithoutLength
        /// Neither length nor chunks: the body ends where the connection does.
        case untilClose
        /// A captive portal's page.
        case htmlWith200
        /// HEAD is answered with 405, GET is served.
        case headRefused
        /// An answer with one megabyte of headers.
        case hugeHeader
        /// 200 without a length and no end.
        case endlessBody
    }

    func answer(_ request: ServerRequest, of version: Version, with fault: Fault) -> [ServerStep] {
        let whole = ByteRange(0, version.length)
        let asked = request.range(of: version.length)?.clamped(to: whole) ?? whole
        let good = goodAnswer(request, of: version)
        let headers = commonHeaders(of: version)
        /// 206 for a range and 200 without, with what the fault makes of it.
        func partial(_ said: ByteRange, of total: Int64, sent: ByteRange) -> [ServerStep] {
            let range = [(name: "Content-Range", value: contentRange(said, of: total))]
            let length = [(name: "Content-Length", value: "\(sent.count)")]
            return [.head(206, headers + range + length), .generated(version.bytes, sent)]
        }
        switch fault {
        case .noRanges, .wholeToRange:
            var kept = headers
            if case .noRanges = fault { kept.removeAll { $0.name == "Accept-Ranges" } }
            return [.head(200, kept + [("Content-Length", "\(version.length)")]), .generated(version.bytes, whole)]
        case .wrongContentRange:
            let moved = ByteRange(asked.lower + 1, asked.upper + 1).clamped(to: whole)
            return partial(moved, of: version.length, sent: moved)
        case .wrongTotal: return partial(asked, of: version.length + 1, sent: asked)
        case .noContentRange:
            return [.head(206, headers + [("Content-Length", "\(asked.count)")]), .generated(version.bytes, asked)]
        case .tooLongBody:
            let range = [(name: "Content-Range", value: contentRange(asked, of: version.length))]
            let rest = ByteRange(asked.lower, version.length)
            return [.head(206, headers + range + [("Transfer-Encoding", "chunked")])] + chunks(version, rest)
        case .shortBody(let count): return cut(good, after: count) + [.close]
        case .resetAfter(let count): return cut(good, after: count) + [.reset]
        case .stallAfter(let count): return cut(good, after: count) + [.stall]
        case .silent: return [.stall]
        case .drip(let piece, let pause):
            return good.map { step in
                guard case .generated(let bytes, let range) = step else { return step }
                return .drip(bytes, range, piece: piece, pause: pause)
            }
        case .status(let code, let seconds):
            return ServerStep.answer(code, seconds.map { [("Retry-After", "\($0)")] } ?? [], body: "an error\n")
        case .redirect(let place): return ServerStep.answer(302, [("Location", place)], body: "moved\n")
        case .redirectLoop: return ServerStep.answer(302, [("Location", request.target)], body: "moved\n")
        case .redirectExpires(let uses): return expiringAnswer(request, uses: uses, good: good)
        case .changedETag:
            var changed = version
            changed.entityTag = "\"changed\""
            return goodAnswer(request, of: changed)
        case .gzip:
            let junk = ServerStep.body([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3])
            return [.head(200, headers + [("Content-Encoding", "gzip"), ("Content-Length", "10")]), junk]
        case .chunkedWithoutLength:
            return [.head(200, headers + [("Transfer-Encoding", "chunked")])] + chunks(version, whole)
        case .untilClose:
            return [.head(200, headers + [("Connection", "close")]), .generated(version.bytes, whole), .close]
        case .htmlWith200:
            return ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html>Please log in</html>")
        case .headRefused: return request.method == "HEAD" ? ServerStep.answer(405) : good
        case .hugeHeader:
            let line = (name: "X-Filler", value: String(repeating: "x", count: 1000))
            return [.head(200, Array(repeating: line, count: 1 << 10) + [("Content-Length", "0")])]
        case .endlessBody: return [.head(200, headers), .endless(version.bytes)]
        }
    }

    /// The answer's head and the first `count` bytes of its body.
    private func cut(_ steps: [ServerStep], after count: Int64) -> [ServerStep] {
        steps.map { step in
            guard case .generated(let bytes, let range) = step else { return step }
            return .generated(bytes, ByteRange(range.lower, min(range.upper, range.lower + count)))
        }
    }

    private func expiringAnswer(_ request: ServerRequest, uses: Int, good: [ServerStep]) -> [ServerStep] {
        withRedirects { state in
            let number = request.query.flatMap { Int($0.dropFirst("signature=".count)) }
            if let number, let left = state.usesLeft[number], left > 0 {
                state.usesLeft[number] = left - 1
                return good
            }
            guard request.query == nil else { return ServerStep.answer(403, body: "expired\n") }
            state.redirects += 1
            state.usesLeft[state.redirects] = uses
            return ServerStep.answer(302, [("Location", "\(request.path)?signature=\(state.redirects)")])
        }
    }
}

/// Part of a file in pieces, each behind its length, and the end of them (RFC 9112, section 7.1).
func chunks(_ version: FileOrigin.Version, _ range: ByteRange) -> [ServerStep] {
    let size: Int64 = 100_000
    let starts = stride(from: range.lower, to: range.upper, by: Int(size))
    return starts.flatMap { start -> [ServerStep] in
        let part = ByteRange(start, min(start + size, range.upper))
        return [.raw(String(part.count, radix: 16) + "\r\n"), .generated(version.bytes, part), .raw("\r\n")]
    } + [.raw("0\r\n\r\n")]
}
