import ReelCore

/// One request as the scripted server read it.
package struct ServerRequest: Sendable {
    /// How many requests the server had read before this one.
    package var number: Int
    /// How many connections it had accepted before the one that this request came on.
    package var connection: Int
    package var method: String
    /// The target as sent: path and query.
    package var target: String
    /// Names in lower case, in order of arrival.
    package var headers: [(name: String, value: String)]
    package var body: [UInt8] = []

    package init(
        number: Int, connection: Int, method: String, target: String, headers: [(name: String, value: String)],
        body: [UInt8] = []
    ) {
        (self.number, self.connection, self.method) = (number, connection, method)
        (self.target, self.headers, self.body) = (target, headers, body)
    }

    package var path: String { String(target.prefix { $0 != "?" }) }
    /// What stands behind the `?`; nil where there is none.
    package var query: String? { target.firstIndex(of: "?").map { String(target[target.index(after: $0)...]) } }

    /// The first header of that name. - Parameter name: in lower case.
    package subscript(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// `Range: bytes=a-b` as the bytes asked for, `bytes=a-` and `bytes=-n` counted against `length`.
    /// nil where there is none, or one that asks for several.
    package func range(of length: Int64) -> ByteRange? {
        guard let value = self["range"], value.hasPrefix("bytes=") else { return nil }
        let ends = value.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
        guard ends.count == 2 else { return nil }
        switch (ends[0], ends[1]) {
        case (let first?, let last?): return first <= last ? ByteRange(first, last + 1) : nil
        case (let first?, nil): return ByteRange(first, max(first, length))
        case (nil, let count?): return ByteRange(max(0, length - count), length)
        case (nil, nil): return nil
        }
    }
}

/// What the scripted server does next on a connection. An answer is a list of these; after the last one the connection
/// is kept alive and the next request read from it (unless the request said `Connection: close`).
package enum ServerStep: Sendable {
    /// A status line and headers, with the empty line that ends them. Nothing is added to them.
    case head(Int, [(name: String, value: String)])
    /// Text sent as it is, not counted as body.
    case raw(String)
    /// Bytes of a body.
    case body([UInt8])
    /// Bytes of a body, made on the way.
    case generated(GeneratedBytes, ByteRange)
    /// Bytes of a body, `piece` bytes at a time with a pause behind each.
    case drip(GeneratedBytes, ByteRange, piece: Int, pause: Duration)
    /// Bytes of a body until the client goes away.
    case endless(GeneratedBytes)
    /// A text again and again, counted as body, until the client goes away; a pause behind each where there is one.
    case repeated(String, pause: Duration? = nil)
    /// Goes on once the test opens the gate. The connection ends where the client left before that.
    case wait(Gate)
    /// Sends nothing for a while.
    case pause(Duration)
    /// Sends nothing more until the client goes away or the server stops.
    case stall
    /// Ends the connection with RST: the client sees "connection reset by peer".
    case reset
    /// Ends the connection in good order.
    case close

    /// A whole answer with its length: status, headers and body.
    package static func answer(
        _ status: Int = 200, _ headers: [(name: String, value: String)] = [], body: String = ""
    ) -> [ServerStep] {
        [
            .head(status, headers + [("Content-Length", "\(body.utf8.count)")]),
            .body(Array(body.utf8)),
        ]
    }
}
