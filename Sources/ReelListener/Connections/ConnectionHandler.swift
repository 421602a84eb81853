import NIOCore
import NIOHTTP1

/// Reads the requests of one connection; a task of its own answers each.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private let site: Site
    private let connections: Connections
    /// Within this long a request has to be complete, the next one has to follow, and a piece of a text to be taken.
    private let patience: TimeAmount
    /// Whoever reaches the socket is of this machine.
    private let isLocal: Bool
    /// Who sends the requests, nil if that is not known.
    private var place: ClientPlace?
    private var head: HTTPRequestHead?
    /// The request's body, nil if it is too long.
    private var body: [UInt8]? = []
    /// The number of the last request: the next one may begin before the end of this one is known here.
    private var number = 0
    private var task: Task<Void, Never>?
    private var timer: Scheduled<Void>?

    init(_ site: Site, _ connections: Connections, isLocal: Bool, patience: TimeAmount) {
        self.site = site
        self.isLocal = isLocal
        self.patience = patience
        self.connections = connections
    }

    func channelActive(context: ChannelHandlerContext) {
        connections.add(context.channel)
        // The kernel no longer knows the client of a connection that was reset before it was accepted.
        place = isLocal ? .thisMachine : context.remoteAddress?.ipAddress.flatMap { ClientPlace($0) }
        if place == nil { return context.close(promise: nil) }
        waitForRequest(context)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        task?.cancel()
        connections.remove(context.channel)
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            body = []
            self.head = head
            if (head.length ?? 0) > ServedCall.longestBody { return refuseBody(context) }
            guard head.wantsToBeTold else { return }
            let goOn = HTTPResponseHead(version: head.version, status: .continue)
            context.channel.writeAndFlush(HTTPServerResponsePart.head(goOn), promise: nil)
        case .body(let piece):
            guard head != nil else { return }
            body?.append(contentsOf: piece.readableBytesView)
            if (body?.count ?? 0) > ServedCall.longestBody { refuseBody(context) }
        case .end:
            if let head = head.take() { answer(head, context, goesOn: true) }
        }
    }

    /// Answers before the end of a body that nobody wants. The connection goes with it.
    private func refuseBody(_ context: ChannelHandlerContext) {
        body = nil
        if let head = head.take() { answer(head, context, goesOn: false) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func waitForRequest(_ context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
    }

    /// - Parameter goesOn: further requests may follow.
    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext, goesOn: Bool) {
        timer?.cancel()
        let channel = context.channel
        guard let place, connections.begin(channel) else { return context.close(promise: nil) }
        let client = Client(
            channel: channel, connections: connections, patience: patience, version: head.version,
            isHead: head.method == .HEAD,
            keepsAlive: goesOn && head.isKeepAlive && head.version == .http1_1 && !head.isLast)
        var request = ServedRequest(
            method: head.method.rawValue, target: head.uri, headers: head.headers.map { ($0.name, $0.value) },
            isModern: head.version != .http1_0 && head.version != .http0_9)
        request.body = body
        request.client = place
        body = []
        number += 1
        let number = number
        let this = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        task = Task { [site, connections] in
            var isWhole = true
            do { try await site.answer(request, to: client) } catch { isWhole = false }
            channel.eventLoop.execute { [isWhole] in
                let (handler, context) = this.value
                handler.answered(number, context, goesOn: isWhole && client.keepsAlive)
            }
            // Last: the event loop may be gone once no request is under way.
            connections.end(channel)
        }
    }

    private func answered(_ number: Int, _ context: ChannelHandlerContext, goesOn: Bool) {
        guard context.channel.isActive else { return }
        if !goesOn { return context.close(promise: nil) }
        guard number == self.number else { return }
        task = nil
        waitForRequest(context)
    }
}

extension HTTPRequestHead {
    /// Whether NIO's decoder takes what follows for another protocol: it keeps all of that, and reads no request.
    fileprivate var isLast: Bool { method == .CONNECT || headers.contains(name: "upgrade") }

    /// Whether the client waits with the body until it is told to go on (RFC 9110, section 10.1.1).
    fileprivate var wantsToBeTold: Bool {
        version == .http1_1 && (length.map { $0 > 0 } ?? headers.contains(name: "transfer-encoding"))
            && headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
    }

    /// Bytes of the body, nil where it says none.
    fileprivate var length: Int64? { headers.first(name: "content-length").map { Int64($0) ?? .max } }
}
