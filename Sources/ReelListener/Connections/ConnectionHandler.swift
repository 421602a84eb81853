import NIOCore
import NIOHTTP1

/// Reads the requests of one connection; a task of its own answers each.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    private let site: Site
    private let connections: Connections
    /// Within this long a request has to be complete, the next one has to follow, and a piece of a text to be taken.
    private let patience: TimeAmount
    private var head: HTTPRequestHead?
    /// The request's body, nil if it is too long.
    private var body: [UInt8]? = []
    /// The number of the last request: the next one may begin before the end of this one is known here.
    private var number = 0
    private var task: Task<Void, Never>?
    private var timer: Scheduled<Void>?

    init(_ site: Site, _ connections: Connections, patience: TimeAmount) {
        self.site = site
        self.patience = patience
        self.connections = connections
    }

    func channelActive(context: ChannelHandlerContext) {
        connections.add(context.channel)
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
            if head.announcesLongBody {
                // Its client waits with a body that nobody wants: the answer is there before it.
                body = nil
                return answer(head, context, goesOn: false)
            }
            self.head = head
            guard head.wantsToBeTold else { return }
            let goOn = HTTPResponseHead(version: head.version, status: .continue)
            context.channel.writeAndFlush(HTTPServerResponsePart.head(goOn), promise: nil)
        case .body(let piece):
            guard head != nil else { return }
            let isLonger = (body?.count ?? 0) + piece.readableBytes > ServedCall.longestBody
            if isLonger { body = nil } else { body?.append(contentsOf: piece.readableBytesView) }
        case .end:
            if let head = head.take() { answer(head, context, goesOn: true) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func waitForRequest(_ context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
    }

    /// - Parameter goesOn: further requests may follow.
    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext, goesOn: Bool) {
        timer?.cancel()
        let channel = context.channel
        guard connections.begin(channel) else { return context.close(promise: nil) }
        let client = Client(
            channel: channel, connections: connections, patience: patience, version: head.version,
            isHead: head.method == .HEAD,
            keepsAlive: goesOn && head.isKeepAlive && head.version == .http1_1 && !head.isLast)
        var request = ServedRequest(
            method: head.method.rawValue, target: head.uri, headers: head.headers.map { ($0.name, $0.value) },
            isModern: head.version != .http1_0 && head.version != .http0_9)
        request.body = body
        request.client = channel.remoteAddress?.ipAddress.flatMap { ClientPlace($0) } ?? .thisMachine
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

    fileprivate var announcesLongBody: Bool { wantsToBeTold && (length ?? 0) > ServedCall.longestBody }

    /// Bytes of the body, nil where it says none.
    private var length: Int64? { headers.first(name: "content-length").map { Int64($0) ?? .max } }
}
