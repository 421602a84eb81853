import Glibc
import ReelFuse

/// A connection to the daemon of a mount.
struct ControlClient: ~Copyable, Sendable {
    let descriptor: Int32

    deinit { close(descriptor) }

    /// nil where nobody listens.
    init?(path: String) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var limit = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard UnixAddress.reaching(path, { $0.connect(descriptor) == 0 }) ?? false else { return nil }
    }

    /// The daemon may be another user's, and say what it likes. Some ten thousand open files fit.
    static let longestLine = 16 << 20

    /// nil where no answer comes within two seconds.
    borrowing func ask(_ command: String) -> ControlAnswer? {
        let line = encodeLine(ControlRequest(command: command))
        guard send(descriptor, line, line.count, Int32(MSG_NOSIGNAL)) == line.count else { return nil }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let end = ContinuousClock.now + .seconds(2)
        while bytes.last != 0x0A {
            let count = read(descriptor, &chunk, chunk.count)
            guard count > 0, ContinuousClock.now < end, bytes.count < Self.longestLine else { return nil }
            bytes += chunk[..<count]
        }
        return decodeLine(ControlAnswer.self, bytes.dropLast())
    }

    /// Sleeps until the daemon has closed the connection: its work is done. false when it has not within `seconds`.
    borrowing func waitForEnd(seconds: Int32) -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&poller, 1, seconds * 1000) == 1
    }

    /// The socket of the daemon behind a mount; nil where it does not tell within two seconds. Asking means waiting for
    /// the daemon, so a thread does it that may be left behind.
    static func path(of mount: Mount) -> String? {
        Mountpoint.answered { mount.attribute("user.reelfs.socket") } ?? nil
    }
}
