import NIOCore
import NIOHTTP1
import ReelCore
import ReelFilesystem
import ReelThreads

/// The writing side of a connection, while one request is answered. All writes wait until the system has taken them:
/// a client that stops reading costs one piece of memory.
struct Client: Sendable {
    let channel: any Channel
    let connections: Connections
    /// The time to take a piece of a text.
    let patience: TimeAmount
    /// The request's version.
    let version: HTTPVersion
    let isHead: Bool
    let keepsAlive: Bool

    /// Sends the status and the headers, with the next piece or at the end.
    func begin(_ answer: ServedAnswer) {
        var headers = HTTPHeaders(answer.headers.map { ($0.name, $0.value) })
        headers.add(name: "Date", value: httpDateText(wallClock()))
        headers.add(name: "Server", value: "reelfs")
        // No page of another site may show what is served here.
        headers.add(name: "Cross-Origin-Resource-Policy", value: "same-site")
        // HTTP/1.0 knows no chunks: there the end of the connection is the body's.
        if answer.isLengthOpen, !isHead, version == .http1_1 {
            headers.add(name: "Transfer-Encoding", value: "chunked")
        }
        if !keepsAlive { headers.replaceOrAdd(name: "Connection", value: "close") }
        let head = HTTPResponseHead(
            version: version, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
    }

    func send(_ bytes: ByteBuffer) async throws {
        try await channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(bytes))).get()
        connections.took(channel)
    }

    func send(_ bytes: [UInt8]) async throws {
        if !bytes.isEmpty { try await send(ByteBuffer(bytes: bytes)) }
    }

    /// Sends bytes without copying them. sendfile(2).
    func send(_ bytes: LentBytes) async throws {
        let file = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: bytes.descriptor)
        // The descriptor is not the handle's to close.
        defer { _ = try? file.takeDescriptorOwnership() }
        let region = FileRegion(
            fileHandle: file, readerIndex: Int(bytes.range.lower), endIndex: Int(bytes.range.upper))
        try await channel.writeAndFlush(HTTPServerResponsePart.body(.fileRegion(region))).get()
        connections.took(channel)
        withExtendedLifetime(bytes) {}
    }

    /// Sends a text in pieces, each of which the client has to take in time: no person pauses it, as one does a film.
    func send(text: [UInt8]) async throws {
        var rest = text[...]
        while !rest.isEmpty {
            try await send(ByteBuffer(bytes: rest.prefix(Self.piece)), within: patience)
            rest = rest.dropFirst(Self.piece)
        }
    }

    /// Bytes of a text that wait here for a client.
    static let piece = 64 << 10

    /// Closes the connection if the client does not take the bytes in time.
    func send(_ bytes: ByteBuffer, within limit: TimeAmount) async throws {
        let timer = channel.eventLoop.scheduleTask(in: limit) { [channel] in channel.close(promise: nil) }
        defer { timer.cancel() }
        try await send(bytes)
    }

    func end() async throws {
        try await channel.writeAndFlush(HTTPServerResponsePart.end(nil)).get()
    }
}
