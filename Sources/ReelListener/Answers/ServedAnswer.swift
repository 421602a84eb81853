import ReelCore

/// The answer to a request: status, headers, and what its body is made of.
package struct ServedAnswer: Sendable {
    /// What follows the headers.
    package enum Body: Sendable {
        case none
        case text([UInt8])
        /// A text that is made while it is sent, in chunks.
        case pieces(any TextPieces)
        /// Bytes of the open file.
        case file(ByteRange)
        /// All bytes of a file whose length is not known: sent in chunks until its end.
        case growing
    }

    package var status: Int
    package var headers: [(name: String, value: String)]
    package var body: Body

    /// - Parameter headers: beside the length, which follows from the body.
    package init(_ status: Int, _ headers: [(name: String, value: String)] = [], _ body: Body = .none) {
        self.status = status
        self.body = body
        self.headers = headers
        if let length = Self.length(of: body), status != 304 { self.headers.append(("Content-Length", "\(length)")) }
    }

    /// A sentence for people.
    package init(_ status: Int, saying sentence: String, _ headers: [(name: String, value: String)] = []) {
        self.init(
            status, [("Content-Type", "text/plain; charset=utf-8")] + headers, .text(Array((sentence + "\n").utf8)))
    }

    /// Whether the client is told that no other one follows.
    var isLast: Bool { headers.contains { $0 == ("Connection", "close") } }

    /// Whether the body's length shows at its end.
    var isLengthOpen: Bool { Self.length(of: body) == nil }

    private static func length(of body: Body) -> Int64? {
        switch body {
        case .none: 0
        case .text(let bytes): Int64(bytes.count)
        case .file(let range): range.count
        case .pieces, .growing: nil
        }
    }
}

/// The facts of an open file that go into its answer.
package struct ServedFile: Sendable {
    package var name: String
    /// Bytes; nil if it is not known.
    package var length: Int64?
    /// nil if the origin gave nothing that names the version.
    package var entityTag: EntityTag?
    /// Seconds since 1970, nil if the origin gave no date of the version.
    package var modified: Int64?
    /// The type as the origin sends it.
    package var originType: String?

    package init(name: String, length: Int64?, entityTag: EntityTag?, modified: Int64?, originType: String? = nil) {
        self.name = name
        self.length = length
        self.entityTag = entityTag
        self.modified = modified
        self.originType = originType
    }

    /// The answer to GET and HEAD.
    package func answer(_ request: ServedRequest) -> ServedAnswer {
        let type = mediaType(of: name, told: originType)
        var headers = [("X-Content-Type-Options", "nosniff")]
        if let modified { headers.append(("Last-Modified", httpDateText(modified))) }
        if let entityTag { headers.append(("ETag", entityTag.header)) }
        // A page of the origin must not act as a page of this server.
        if !isHarmless(type) { headers.append(("Content-Security-Policy", "sandbox")) }
        let conditions = Preconditions(entityTag: entityTag, modified: modified)
        switch conditions.outcome(request) {
        case .unchanged: return ServedAnswer(304, headers)
        case .failed: return ServedAnswer(412, headers)
        case .send: break
        }
        let typed = headers + [("Content-Type", type)]
        guard let length else { return ServedAnswer(200, typed, .growing) }
        let ranged = typed + [("Accept-Ranges", "bytes")]
        let whole = ServedAnswer(200, ranged, .file(ByteRange(0, length)))
        guard request.method == "GET" || request.method == "HEAD", conditions.allowsRange(request) else { return whole }
        switch RangeRequest(request["range"], length: length) {
        case .whole: return whole
        case .unsatisfiable:
            return ServedAnswer(416, headers + [("Content-Range", "bytes */\(length)")])
        case .part(let range):
            return ServedAnswer(206, ranged + [("Content-Range", contentRange(range, of: length))], .file(range))
        }
    }
}

private func contentRange(_ range: ByteRange, of length: Int64) -> String {
    "bytes \(range.lower)-\(range.upper - 1)/\(length)"
}
