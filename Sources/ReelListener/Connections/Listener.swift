import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import ReelFilesystem

/// The HTTP server of a mount: shows the filesystem below `/files/`.
///
/// One thread of its own serves all connections and never waits for a disk: a task answers each request.
package final class Listener: Sendable {
    /// The address as a client names it: a URL, or `unix:PATH`.
    package let address: String

    private let group: MultiThreadedEventLoopGroup
    private let channel: any Channel
    private let connections = Connections()
    /// To be removed at the end.
    private let socketFile: SocketFile?
    private let onStop: @Sendable () -> Void

    /// No client needs more of a head, and each connection may hold one.
    private static let limits = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 << 10
        limits.maxHeaderListSize = 32 << 10
        limits.maxHeaderFieldCount = 100
        return limits
    }()

    /// `Client` says itself how a body ends: NIO would write the end of one behind the head that HEAD is answered with.
    private static let framing = {
        var framing = HTTPResponseEncoder.Configuration()
        framing.automaticallySetFramingHeaders = false
        return framing
    }()

    /// Bytes of an answer that wait in the kernel for a client that does not read; it would take megabytes by itself.
    private static let sendBuffer: ChannelOptions.Types.SocketOption.Value = 256 << 10

    /// Serves the connections of a socket.
    /// - Parameters:
    ///   - documents: what is served beside the tree, by path.
    ///   - calls: what can be asked for, by path.
    ///   - credentials: that each request must bring, nil if none.
    ///   - token, origins: as for ``Admission``.
    ///   - patience: the time that a client has for a request, until the next one, and for a piece of a text.
    ///   - eachSecond: called each second until the end, on the thread of all connections.
    ///   - onStop: called when the listener ends, before it waits for the last answer.
    package init(
        _ socket: ListenSocket, _ filesystem: any Filesystem, documents: [String: ServedDocument],
        calls: [String: ServedCall], credentials: (user: String, password: String)?, token: String?,
        origins: [ServedOrigin] = [], patience: Duration = .seconds(60), eachSecond: (@Sendable () -> Void)? = nil,
        onStop: @escaping @Sendable () -> Void
    ) throws(ListenError) {
        address = socket.address
        socketFile = socket.file
        self.onStop = onStop
        let site = Site(
            tree: ServedTree(filesystem: filesystem),
            admission: Admission(credentials: credentials, token: token, reach: socket.reach, origins: origins),
            documents: documents, calls: calls)
        let isLocal = if case .socket = socket.reach { true } else { false }
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let bootstrap = ServerBootstrap(group: group)
            .childChannelOption(.socketOption(.so_sndbuf), value: Self.sendBuffer)
            .childChannelInitializer { [connections] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.configureHTTPServerPipeline(
                        withEncoderConfiguration: Self.framing,
                        withDecoderLimitConfiguration: Self.limits)
                    let queue = try pipeline.handler(type: HTTPServerPipelineHandler.self)
                    try pipeline.addHandler(RequestLimit(), position: .before(queue))
                    try pipeline.addHandler(
                        ConnectionHandler(site, connections, isLocal: isLocal, patience: TimeAmount(patience)))
                }
            }
        do {
            channel = try bootstrap.withBoundSocket(socket.take()).wait()
        } catch {
            try? group.syncShutdownGracefully()
            throw ListenError(sentence: "cannot listen at \(address): \(error)")
        }
        guard let eachSecond else { return }
        channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .seconds(1)) { _ in eachSecond() }
    }

    /// Ends all connections, and returns when nothing of it calls the filesystem any more.
    package func stop() {
        socketFile?.remove()
        try? channel.close().wait()
        onStop()
        connections.stop()
        try? group.syncShutdownGracefully()
    }
}
