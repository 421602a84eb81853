import ReelCore
import ReelThreads

/// One request and its answer.
///
/// `@unchecked Sendable`: only the thread of its transport uses what changes.
package final class SimulatedExchange: RequestControl, GatedRequest, @unchecked Sendable {
    private let handle: RequestHandle
    package private(set) var request: OriginRequest
    package var payment = LinePayment()
    /// No file server is simulated, which could not be paused.
    package let canPause = true
    private let receiver: any OriginReceiver
    private let transport: SimulatedTransport
    private var url: ResourceURL
    private var redirects = 0
    private var steps: ArraySlice<ServerStep> = []
    private var hasHead = false
    /// The bytes that are left of the announced body, nil if no length was announced.
    private var rest: Int64?
    private var isChunked = false
    private var isPaused = false
    private var mayGoOn = false
    private var isOver = false
    private var delivered: Int64 = 0
    private var lastByte = Duration.zero
    /// Bytes of the body that the line has brought, and that were not taken: they stand in the socket.
    private var unread: Int64 = 0
    /// More of them are on their way.
    private var isComing = false
    private var bytesPerSecond: Int64 = 1
    /// Steps of an answer that was left for another one are not done.
    private var turn = 0

    init(
        _ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver,
        _ transport: SimulatedTransport
    ) {
        (self.handle, self.request, self.receiver, self.transport) = (handle, request, receiver, transport)
        url = request.url
    }

    // MARK: Control

    package func cancel(_ handle: RequestHandle) { transport.perform { [self] in finish(.cancelled) } }
    package func promote(_ handle: RequestHandle) { transport.perform { [self] in request.promote() } }
    package func resume(_ handle: RequestHandle) {
        transport.perform { [self] in
            mayGoOn = true
            resume()
        }
    }

    // MARK: On the transport's thread

    package var rank: LineRank { request.rank(for: handle.rank) }
    package var silence: Duration { now() - lastByte }

    func begin() {
        if handle.isPromoted { request.promote() }
        if handle.isCancelled { return finish(.cancelled) }
        if transport.line.isOffline { return finish(.away(.offline)) }
        lastByte = now()
        if transport.wire.admits(self) { return send() }
        Simulation.tell("\(path) is held back")
        waitHeld()
    }

    /// While others get bytes, waiting is no stall.
    private func waitHeld() {
        let left = max(lastByte, transport.wire.lastByte) + request.stallLimit - now()
        guard left > .zero else { return finish(.timedOut) }
        transport.after(left) { [self] in if payment.isGated, !isOver { waitHeld() } }
    }

    private func send() {
        lastByte = now()
        receiver.sent()
        ask()
    }

    /// The line has room for it again.
    func goOn() {
        if !isOver { turn > 0 ? resume() : send() }
    }

    private func resume() {
        guard isPaused else { return }
        isPaused = false
        Simulation.tell("\(path) goes on after \(delivered) bytes")
        lastByte = now()
        unread > 0 || isComing ? takeUnread() : step(turn)
    }

    /// What can be asked for again ends for a request of more weight.
    func yields() {
        if turn > 0, receiver.yields() { finish(.cancelled) }
    }

    private func ask() {
        turn += 1
        (hasHead, rest, isChunked) = (false, nil, false)
        lastByte = now()
        var headers = transport.headers(request, url)
        if let range = request.range { headers.append(("range", "bytes=\(range.lower)-\(range.upper - 1)")) }
        switch request.condition {
        case .ifRange(let text)?: headers.append(("if-range", text))
        case .ifChanged(let tag, let date)?:
            if let tag { headers.append(("if-none-match", tag)) }
            if let date { headers.append(("if-modified-since", date)) }
        case nil: break
        }
        if let upload = request.upload { headers.append(("content-length", "\(upload.length)")) }
        let target = String(path)
        let asked = ServerRequest(
            number: 0, connection: 0, method: request.upload == nil ? request.method : "PUT",
            target: target.isEmpty ? "/" : target,
            headers: headers.map { (asciiLowercased($0.name), $0.value) }, body: body())
        guard let answer = transport.answer(asked, from: url.origin) else { return finish(.unreachable("no server")) }
        steps = answer[...]
        let latency: Duration
        (latency, bytesPerSecond) = transport.pace()
        let range = request.range.map { "\($0)" } ?? "whole"
        let condition =
            switch request.condition {
            case .ifRange(let text)?: " if range \(text)"
            case .ifChanged(let tag, let date)?: " if not \(tag ?? date ?? "")"
            case nil: ""
            }
        Simulation.tell("asks \(asked.method) \(url.text) \(range) \(request.reason)\(condition)")
        let turn = turn
        transport.after(latency) { [self] in step(turn) }
    }

    private func body() -> [UInt8] {
        guard let upload = request.upload else { return request.body }
        var bytes = [UInt8](repeating: 0, count: Int(upload.length))
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                upload.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[done...]), at: Int64(done))
            }
            guard let count, count > 0 else { return [] }
            done += count
        }
        return bytes
    }

    private func later(_ pause: Duration) {
        let turn = turn
        transport.after(pause) { [self] in step(turn) }
    }

    private func step(_ number: Int) {
        guard !isOver, !isPaused, number == turn else { return }
        // The connection stays open, and the body has not ended.
        guard let step = steps.popFirst() else { return fallSilent() }
        switch step {
        case .head(let status, let headers): head(status, headers)
        case .raw(let text): raw(text)
        case .body(let bytes): bytes.withUnsafeBytes { give($0) }
        case .generated(let bytes, let range): generated(bytes, range, piece: transport.wire.piece, nil)
        case .drip(let bytes, let range, let piece, let pause): generated(bytes, range, piece: Int64(piece), pause)
        case .endless(let bytes):
            steps = [.generated(bytes, ByteRange(0, 1 << 30))]
            later(.zero)
        case .repeated(let text, let pause):
            steps.insert(step, at: steps.startIndex)
            Array(text.utf8).withUnsafeBytes { give($0, then: pause ?? .milliseconds(1)) }
        case .wait: later(.zero)
        case .pause(let pause): pause > silenceLeft ? fallSilent() : later(pause)
        case .stall: fallSilent()
        case .reset: finish(.interrupted(hasHead ? "reset" : "reset before an answer"))
        case .close: close()
        }
    }

    /// The target of the request as it is now, for the story.
    private var path: Substring { url.text.dropFirst(url.origin.utf8.count) }

    private var silenceLeft: Duration { request.longestSilence - (now() - lastByte) }

    /// No byte comes any more.
    private func fallSilent() {
        let turn = turn
        transport.after(max(.zero, silenceLeft)) { [self] in
            if !isPaused, turn == self.turn { finish(.timedOut) }
        }
    }

    private func close() {
        finish(hasHead && rest == nil && !isChunked ? nil : .interrupted("closed"))
    }

    private func raw(_ text: String) {
        if hasHead {
            // The framing of chunks; the last one is empty.
            if isChunked, text.hasPrefix("0\r\n") { return finish(nil) }
            if isChunked { return later(.zero) }
            return Array(text.utf8).withUnsafeBytes { give($0) }
        }
        if text.hasPrefix("HTTP/1.1 1") { return later(.zero) }
        finish(.wrongAnswer("no HTTP"))
    }

    private func head(_ status: Int, _ headers: [(name: String, value: String)]) {
        lastByte = now()
        let head = ResponseHead(status: status, headers: headers, url: url)
        isChunked = head["transfer-encoding"] != nil
        rest = isChunked ? nil : head.contentLength
        if headers.map({ $0.name.utf8.count + $0.value.utf8.count }).reduce(0, +) > 256 << 10 {
            return finish(.wrongAnswer("a head too large"))
        }
        if headers.contains(where: { asciiLowercased($0.name) == "content-length" }), !isChunked, rest == nil {
            return finish(.wrongAnswer("two lengths"))
        }
        Simulation.tell("gets \(status) of \(path)")
        if request.accepted.contains(status) {
            hasHead = true
            if let failure = receiver.head(head) { return finish(failure) }
            if status == 304 || status == 204 || request.method == "HEAD" || rest == 0 { return finish(nil) }
            return later(.zero)
        }
        if [301, 302, 303, 307, 308].contains(status) {
            redirects += 1
            guard redirects <= 10, let place = head["location"], let next = url.resolve(place),
                next.origin == url.origin || request.isReading && transport.knows(next.origin)
            else { return finish(.wrongAnswer("a redirect to nowhere")) }
            url = next
            receiver.redirected()
            return ask()
        }
        finish(OriginFailure.status(status, retryAfter: head.retryAfter(now: wallClock())))
    }

    private func generated(_ bytes: GeneratedBytes, _ range: ByteRange, piece: Int64, _ pause: Duration?) {
        guard !range.isEmpty else { return later(.zero) }
        let count = min(range.count, piece)
        let part = ByteRange(range.lower, range.lower + count)
        let after = ByteRange(part.upper, range.upper)
        if !after.isEmpty {
            steps.insert(
                pause.map { .drip(bytes, after, piece: Int(piece), pause: $0) } ?? .generated(bytes, after),
                at: steps.startIndex)
        }
        bytes.bytes(part).withUnsafeBytes { give($0, then: pause) }
    }

    /// Hands bytes of the body on, and goes on after the time that they took.
    private func give(_ bytes: UnsafeRawBufferPointer, then pause: Duration? = nil) {
        guard hasHead else { return finish(.wrongAnswer("a body without a head")) }
        lastByte = now()
        let wanted = rest.map { min($0, Int64(bytes.count)) } ?? Int64(bytes.count)
        mayGoOn = false
        transport.sent(Int(wanted))
        transport.wire.took(Int(wanted), by: self)
        delivered += wanted
        let answer = receiver.body(UnsafeRawBufferPointer(rebasing: bytes[..<Int(wanted)]))
        rest = rest.map { $0 - wanted }
        if case .stop = answer { return finish(.cancelled) }
        if rest == 0 { return finish(nil) }
        let time = pause ?? .microseconds(1 + Int64(bytes.count) * 1_000_000 / bytesPerSecond)
        if time > request.longestSilence { return fallSilent() }
        if case .pause = answer { isPaused = !mayGoOn } else { isPaused = transport.wire.throttles(self) }
        if isPaused { Simulation.tell("\(path) is paused after \(delivered) bytes") }
        guard pause == nil, transport.wire.isNarrow else { return isPaused ? () : later(time) }
        bring()
        takeUnread()
    }

    /// Has the wire bring bytes until the socket is full, taken or not.
    private func bring() {
        guard !isOver, !isComing, unread < min(SimulatedWire.socket, rest ?? .max) else { return }
        isComing = true
        transport.after(transport.wire.carry(transport.wire.piece)) { [self] in
            isComing = false
            unread += transport.wire.piece
            bring()
            takeUnread()
        }
    }

    private func takeUnread() {
        guard !isOver, !isPaused, unread > 0 else { return }
        unread -= transport.wire.piece
        step(turn)
    }

    func finish(_ failure: OriginFailure?) {
        guard !isOver else { return }
        isOver = true
        transport.wire.forget(self)
        transport.ended(self)
        let end = failure.map { $0 == .cancelled ? "is cancelled" : "fails: \($0)" } ?? "ends"
        Simulation.tell("\(path) \(end) after \(delivered) bytes")
        receiver.ended(failure)
    }
}
