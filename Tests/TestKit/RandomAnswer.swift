import ReelCore

/// What happens to a request of the random origin.
package enum Trouble: CaseIterable, Sendable {
    // The body and its time.
    case short, reset, stall, pause, drip, silence
    // The range and the length.
    case whole, fewer, wrongRange, wrongTotal, oddRange, noRange, parts, tooLong, unsatisfiable
    // What identifies the version.
    case otherTag, weakTag, noValidator, unchanged
    // Framing.
    case chunked, trailers, information, shuffled, doubled, huge, compressed, garbage
    // Another matter.
    case status, retryAfter, portal, redirect, wrongRedirect
}

/// One answer of the random origin, right or in trouble.
struct RandomAnswer {
    private let request: ServerRequest
    /// A good answer's head and body.
    private let status: Int
    private var headers: [(name: String, value: String)]
    private let body: [ServerStep]
    private let identity: RandomOrigin.Identity
    private let version: FileOrigin.Version?
    private var random: SeededGenerator

    init(_ request: ServerRequest, _ file: RandomOrigin.File, _ random: SeededGenerator) {
        let good = FileOrigin(file.now).answer(request)
        self.init(request, file.isStream ? Self.stream(good, file.now) : good, random, file.identity, file.now)
    }

    init(_ request: ServerRequest, document: [ServerStep], _ random: SeededGenerator) {
        self.init(request, document, random, .length, nil)
    }

    private init(
        _ request: ServerRequest, _ good: [ServerStep], _ random: SeededGenerator, _ identity: RandomOrigin.Identity,
        _ version: FileOrigin.Version?
    ) {
        guard case .head(let status, let headers)? = good.first else { preconditionFailure("no head") }
        (self.request, self.status, self.headers, body) = (request, status, headers, Array(good.dropFirst()))
        (self.identity, self.version, self.random) = (identity, version, random)
    }

    func good() -> [ServerStep] { [.head(status, headers)] + body }

    /// The answer of a server that knows no length and no ranges.
    private static func stream(_ good: [ServerStep], _ version: FileOrigin.Version) -> [ServerStep] {
        guard case .head(let status, var headers)? = good.first, status != 304 else { return good }
        let framing = ["Content-Length", "Content-Range", "Accept-Ranges"]
        headers = headers.filter { !framing.contains($0.name) } + [("Transfer-Encoding", "chunked")]
        let hasBody = good.count > 1 || status == 416
        return [.head(200, headers)] + (hasBody ? chunks(version, ByteRange(0, version.length)) : [])
    }

    /// Whether the body is in pieces already.
    private var isChunked: Bool { headers.contains { $0.name == "Transfer-Encoding" } }

    mutating func steps(_ trouble: Trouble) -> [ServerStep] {
        switch trouble {
        case .short: return good(cutAfter: place()) + [.close]
        case .reset: return good(cutAfter: place()) + [.reset]
        case .stall: return good(cutAfter: place()) + [.stall]
        case .silence: return [.stall]
        case .pause: return [.pause(.milliseconds(one([50, 400, 1500, 2500])))] + good()
        case .drip: return drip()
        case .whole: return fault(.wholeToRange)
        case .noRange: return fault(one([.noContentRange, .noRanges]))
        case .wrongRange: return fault(.wrongContentRange)
        case .tooLong: return fault(.tooLongBody)
        case .wrongTotal:
            return total(one(["\((version?.length ?? 0) + 1)", "\((version?.length ?? 0) * 2 + 3)", "*"]))
        case .oddRange: return oddRange()
        case .fewer: return fewer()
        case .parts: return parts()
        case .unsatisfiable:
            return ServerStep.answer(416, [("Content-Range", "bytes */\(one(["0", "7", "*", "-1", "\(Int64.max)"]))")])
        case .otherTag: return tagged("\"\(version?.entityTag?.dropFirst().dropLast() ?? "")-\(random.next() % 3)\"")
        case .weakTag: return tagged("W/" + (version?.entityTag ?? "\"\""))
        case .noValidator:
            if identity == .length { headers.removeAll { ["ETag", "Last-Modified"].contains($0.name) } }
            return good()
        case .unchanged: return [.head(304, headers.filter { $0.name != "Content-Length" })]
        case .chunked where isChunked, .trailers where isChunked: return good()
        case .chunked: return chunked(trailers: [])
        case .trailers:
            let lines = ["ETag: \"trailer\"", "Content-Length: 3", "Content-Range: bytes 0-1/2", "X: " + filler(2000)]
            return chunked(
                trailers: Array(lines.shuffled(using: &random).prefix(Int.random(in: 1...4, using: &random))))
        case .information:
            let count = one([1, 3, 40])
            let line = one(["100 Continue", "103 Early Hints", "199 Odd"])
            return [.raw(String(repeating: "HTTP/1.1 \(line)\r\nLink: </x>\r\n\r\n", count: count))] + good()
        case .shuffled:
            headers = headers.map {
                (Bool.random(using: &random) ? $0.name.uppercased() : $0.name.lowercased(), $0.value)
            }
            headers.shuffle(using: &random)
            return good()
        case .doubled: return doubled()
        case .huge:
            let lines = one([(1, 90_000), (1, 300_000), (600, 40), (100, 1000)])
            headers += Array(repeating: (name: "X-Filler", value: filler(lines.1)), count: lines.0)
            return good()
        case .compressed: return fault(.gzip)
        case .garbage:
            return [
                .raw(one(["\0\u{1}\u{2}", "HTTP/9.9 999 \u{7F}\r\n\r\n", "\r\n\r\n", "ICY 200 OK\r\n\r\n"])), .close,
            ]
        case .status: return ServerStep.answer(one([400, 401, 403, 404, 410, 418, 451, 500, 502, 504, 599, 999]))
        case .retryAfter:
            let value = one(["0", "1", "2", "-5", "99999999999999999999", "soon", "Fri, 31 Dec 9999 23:59:59 GMT", ""])
            return ServerStep.answer(one([429, 503]), [("Retry-After", value)], body: "later\n")
        case .portal: return fault(.htmlWith200)
        case .redirect:
            return ServerStep.answer(one([301, 302, 303, 307, 308]), [("Location", "/moved" + request.target)])
        case .wrongRedirect:
            let places = [
                request.target, "http://127.0.0.1:1/", "file:///etc/passwd", "gopher://x/", "//[::", "?", "",
                "http://127.0.0.1:99999/", "/" + filler(9000), "http://" + filler(300) + "/", "/moved/\u{301}", "\\\\x",
            ]
            return ServerStep.answer(302, [("Location", one(places))])
        }
    }

    private mutating func one<Value>(_ values: [Value]) -> Value { values.randomElement(using: &random)! }

    private mutating func place() -> Int64 { one([0, 1, 1000, 65_536, 200_001, 1 << 20]) }

    private func filler(_ count: Int) -> String { String(repeating: "x", count: count) }

    /// What the scripted file makes of its own faults; a listing is just not there.
    private func fault(_ fault: FileOrigin.Fault) -> [ServerStep] {
        guard let version else { return ServerStep.answer(200, [("Content-Type", "text/html")], body: "<p>Log in") }
        let file = FileOrigin(version)
        file.fault = fault
        return file.answer(request)
    }

    /// The good answer, cut where its body has given this many bytes.
    private func good(cutAfter count: Int64) -> [ServerStep] {
        var (steps, left) = ([ServerStep.head(status, headers)], count)
        for step in body {
            switch step {
            case .generated(let bytes, let range):
                steps.append(.generated(bytes, ByteRange(range.lower, min(range.upper, range.lower + left))))
                left -= range.count
            case .body(let bytes):
                steps.append(.body(Array(bytes.prefix(Int(left)))))
                left -= Int64(bytes.count)
            default: steps.append(step)
            }
            if left < 0 { break }
        }
        return steps
    }

    private mutating func drip() -> [ServerStep] {
        let (piece, pause) = one([(1000, 5), (30_000, 5), (100_000, 100)])
        return [.head(status, headers)]
            + body.map { step in
                guard case .generated(let bytes, let range) = step else { return step }
                return .drip(bytes, range, piece: piece, pause: .milliseconds(pause))
            }
    }

    /// The bytes of the range that was asked for, nil where the good answer has none.
    private var part: (bytes: GeneratedBytes, range: ByteRange)? {
        guard status == 206, case .generated(let bytes, let range)? = body.first else { return nil }
        return (bytes, range)
    }

    private mutating func set(_ name: String, _ value: String) {
        headers.removeAll { $0.name == name }
        headers.append((name, value))
    }

    private mutating func total(_ total: String) -> [ServerStep] {
        if let part { set("Content-Range", "bytes \(part.range.lower)-\(part.range.upper - 1)/\(total)") }
        return good()
    }

    private mutating func oddRange() -> [ServerStep] {
        guard part != nil else { return good() }
        let texts = [
            "bytes 0-9223372036854775807/9223372036854775807", "bytes -1-5/10", "bytes 5-1/10", "bytes=0-1/2",
            "bytes */*",
            "bytes 18446744073709551615-18446744073709551616/18446744073709551617", "", "items 0-1/2", "bytes 0-1",
            "bytes 0-0/0", "bytes 9223372036854775806-9223372036854775807/9223372036854775807",
        ]
        set("Content-Range", one(texts))
        return good()
    }

    /// A 206 with less than was asked for, which is allowed (RFC 9110, section 15.3.7).
    private mutating func fewer() -> [ServerStep] {
        guard let part, part.range.count > 1 else { return good() }
        let range = ByteRange(
            part.range.lower, part.range.lower + Int64.random(in: 1..<part.range.count, using: &random))
        set("Content-Length", "\(range.count)")
        set("Content-Range", "bytes \(range.lower)-\(range.upper - 1)/\(version?.length ?? 0)")
        return [.head(206, headers), .generated(part.bytes, range)]
    }

    private mutating func parts() -> [ServerStep] {
        headers.removeAll { ["Content-Range", "Content-Length", "Content-Type"].contains($0.name) }
        let text = "--x\r\nContent-Range: bytes 0-1/2\r\n\r\nab\r\n--x--\r\n"
        return [
            .head(
                206,
                headers + [("Content-Type", "multipart/byteranges; boundary=x"), ("Content-Length", "\(text.count)")]),
            .raw(text),
        ]
    }

    /// No version of a file has another's tag, with or without what is put behind it here.
    private mutating func tagged(_ tag: String) -> [ServerStep] {
        if version?.entityTag != nil { set("ETag", tag) }
        return good()
    }

    private mutating func doubled() -> [ServerStep] {
        let line = one([("Content-Length", "1"), ("Content-Range", "bytes 0-1/2"), ("ETag", "\"\""), ("Date", "never")])
        if Bool.random(using: &random) { headers.insert(line, at: 0) } else { headers.append(line) }
        if let good = headers.randomElement(using: &random) { headers.append(good) }
        return good()
    }

    private mutating func chunked(trailers: [String]) -> [ServerStep] {
        let isLengthKept = Bool.random(using: &random)
        if !isLengthKept { headers.removeAll { $0.name == "Content-Length" } }
        var steps = [ServerStep.head(status, headers + [("Transfer-Encoding", "chunked")])]
        for step in body {
            let count: Int64
            switch step {
            case .generated(_, let range): count = range.count
            case .body(let bytes): count = Int64(bytes.count)
            default: count = 0
            }
            if count > 0 {
                steps += [.raw(String(count, radix: 16) + one(["", ";x=y", "  "]) + "\r\n"), step, .raw("\r\n")]
            }
        }
        return steps + [.raw("0\r\n" + trailers.map { $0 + "\r\n" }.joined() + "\r\n")]
    }
}
