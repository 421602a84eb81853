import Glibc
import ReelCore

/// One connection of the scripted server, served by a thread of its own.
struct ServerConnection {
    let descriptor: Int32
    let number: Int
    let server: ScriptedServer
    /// What was read and belongs to no request yet.
    private var unread: [UInt8] = []

    init(descriptor: Int32, number: Int, server: ScriptedServer) {
        self.descriptor = descriptor
        self.number = number
        self.server = server
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    mutating func serve() {
        while var request = readRequest() {
            request.number = server.log.withLock { log in
                request.number = log.requests.count
                log.requests.append(request)
                return request.number
            }
            for step in server.script(request) {
                guard perform(step) else { return }
            }
            if request["connection"].map({ asciiLowercased($0) }) == "close" { return }
        }
    }

    /// nil where the client left, or sent what is no request.
    private mutating func readRequest() -> ServerRequest? {
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            if let end = headEnd() {
                let text = String(decoding: unread[..<end], as: UTF8.self)
                guard var request = parsedRequest(text) else { return nil }
                let whole = end + 4 + (request["content-length"].flatMap { Int($0) } ?? 0)
                if unread.count >= whole {
                    request.body = Array(unread[(end + 4)..<whole])
                    unread.removeSubrange(..<whole)
                    return request
                }
            }
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0, unread.count < 4 << 20 else { return nil }
            unread += chunk[..<count]
        }
    }

    private func headEnd() -> Int? {
        guard unread.count >= 4 else { return nil }
        return (0...(unread.count - 4)).first {
            unread[$0] == 13 && unread[$0 + 1] == 10 && unread[$0 + 2] == 13 && unread[$0 + 3] == 10
        }
    }

    private func parsedRequest(_ text: String) -> ServerRequest? {
        let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return nil }
        let headers = lines.dropFirst().compactMap { line -> (name: String, value: String)? in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (asciiLowercased(line[..<colon]), trimmed(line[line.index(after: colon)...]))
        }
        return ServerRequest(
            number: 0, connection: number, method: String(words[0]), target: String(words[1]), headers: headers)
    }

    /// - Returns: whether the connection goes on.
    private func perform(_ step: ServerStep) -> Bool {
        switch step {
        case .head(let status, let headers):
            let lines = headers.map { "\($0.name): \($0.value)\r\n" }.joined()
            return send(Array("HTTP/1.1 \(status) \(reason(status))\r\n\(lines)\r\n".utf8), isBody: false)
        case .raw(let text): return send(Array(text.utf8), isBody: false)
        case .body(let bytes): return send(bytes, isBody: true)
        case .generated(let bytes, let range): return send(bytes, range, piece: 64 << 10, pause: nil)
        case .drip(let bytes, let range, let piece, let pause): return send(bytes, range, piece: piece, pause: pause)
        case .endless(let bytes): return send(bytes, ByteRange(0, .max), piece: 64 << 10, pause: nil)
        case .repeated(let text, let pause): return send(text, pause)
        case .wait(let gate): return waitForLeaving(orFor: gate.readEnd, milliseconds: -1) == .other
        case .pause(let pause):
            return waitForLeaving(orFor: -1, milliseconds: Int32(pause / .milliseconds(1))) == .timedOut
        case .stall:
            _ = waitForLeaving(orFor: -1, milliseconds: -1)
            return false
        case .reset:
            var choice = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &choice, socklen_t(MemoryLayout<linger>.size))
            return false
        case .close: return false
        }
    }

    private func send(_ bytes: GeneratedBytes, _ range: ByteRange, piece: Int, pause: Duration?) -> Bool {
        var buffer = [UInt8](repeating: 0, count: piece)
        var offset = range.lower
        while offset < range.upper {
            let count = Int(min(Int64(piece), range.upper - offset))
            buffer.withUnsafeMutableBytes {
                bytes.fill(UnsafeMutableRawBufferPointer(rebasing: $0[..<count]), from: offset)
            }
            guard send(count == piece ? buffer : Array(buffer[..<count]), isBody: true) else { return false }
            offset += Int64(count)
            if let pause, offset < range.upper {
                let milliseconds = Int32(pause / .milliseconds(1))
                if waitForLeaving(orFor: -1, milliseconds: milliseconds) == .left { return false }
            }
        }
        return true
    }

    /// - Returns: false, as it ends only when the client leaves.
    private func send(_ text: String, _ pause: Duration?) -> Bool {
        // Many at a time, where time is no matter.
        let piece = Array(String(repeating: text, count: pause == nil ? max(1, (64 << 10) / text.utf8.count) : 1).utf8)
        while send(piece, isBody: true) {
            guard let pause else { continue }
            if waitForLeaving(orFor: -1, milliseconds: Int32(pause / .milliseconds(1))) == .left { break }
        }
        return false
    }

    private func send(_ bytes: [UInt8], isBody: Bool) -> Bool {
        bytes.withUnsafeBytes { whole in
            var rest = whole[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.send(descriptor, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
                guard count > 0 else { return false }
                if isBody { server.log.withLock { $0.bodyBytes += Int64(count) } }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    private enum Waited { case left, other, timedOut }

    /// Waits for the client to leave or the server to stop, for another descriptor, or for time to pass.
    private func waitForLeaving(orFor other: Int32, milliseconds: Int32) -> Waited {
        var watched = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: other, events: Int16(POLLIN), revents: 0),
        ]
        let count = poll(&watched, 2, milliseconds)
        if count == 0 { return .timedOut }
        return watched[1].revents != 0 ? .other : .left
    }

    private func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 206: "Partial Content"
        case 304: "Not Modified"
        default: "As Scripted"
        }
    }
}
