import Glibc

extension ControlClient {
    /// Asks for what may take a while.
    /// - Parameter each: gets what comes before the last line.
    /// - Returns: nil where no line comes for a minute: a daemon that works says so all the time, and only a disk that
    ///   stands still keeps it from that.
    borrowing func ask(_ request: ControlRequest, _ each: (ControlAnswer) -> Void) -> ControlAnswer? {
        let line = encodeLine(request)
        guard send(descriptor, line, line.count, Int32(MSG_NOSIGNAL)) == line.count else { return nil }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let isReady = poll(&poller, 1, 60_000)
            if isReady < 0, errno == EINTR { continue }
            guard isReady == 1 else { return nil }
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            var rest = chunk[..<count]
            while let end = rest.firstIndex(of: 0x0A) {
                guard let answer = decodeLine(ControlAnswer.self, bytes + rest[..<end]) else { return nil }
                bytes = []
                rest = rest[(end + 1)...]
                if answer.more != true { return answer }
                each(answer)
            }
            bytes += rest
            guard bytes.count < Self.longestLine else { return nil }
        }
    }
}
