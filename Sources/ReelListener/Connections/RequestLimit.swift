import NIOCore
import NIOHTTP1

/// Closes a connection whose client sends many requests without waiting for answers: NIO keeps each that it has read,
/// at fifty times its bytes.
///
/// Stands between the decoder and what queues requests.
final class RequestLimit: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// More than browsers ever sent so.
    static let most = 32

    /// Requests that are not answered yet.
    private var waiting = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head = unwrapInboundIn(data) { waiting += 1 }
        // What has been read with it comes all the same.
        if waiting == Self.most + 1 { context.close(promise: nil) }
        if waiting <= Self.most { context.fireChannelRead(data) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data), waiting <= Self.most { waiting -= 1 }
        context.write(data, promise: promise)
    }
}
