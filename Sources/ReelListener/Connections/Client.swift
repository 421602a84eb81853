import Glibc
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
    /// The time to take a piece of a text, or the end of an answer.
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
        if answer.isLengthOpen, !isHead {
            // HTTP/1.0 knows no chunks: there the end of the connection is the body's, and one that comes too early has
            // to be another.
            if version == .http1_1 {
                headers.add(name: "Transfer-Encoding", value: "chunked")
            } else {
                _ = reset(atClose: true)
            }
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
        let timer = close(after: limit)
        defer { timer.cancel() }
        try await send(bytes)
    }

    /// Closes the connection if the client does not take the end in time. The bytes of a file are taken by then.
    func end() async throws {
        let timer = close(after: patience)
        defer { timer.cancel() }
        try await channel.writeAndFlush(HTTPServerResponsePart.end(nil)).get()
        if version != .http1_1 { try await reset(atClose: false)?.get() }
    }

    private func close(after limit: TimeAmount) -> Scheduled<Void> {
        channel.eventLoop.scheduleTask(in: limit) { [channel] in channel.close(promise: nil) }
    }

    /// Whether the client sees an error when the connection is closed (RST), in place of an end. SO_LINGER, socket(7).
    private func reset(atClose isReset: Bool) -> EventLoopFuture<Void>? {
        (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: isReset ? 1 : 0, l_linger: 0))
    }
}
