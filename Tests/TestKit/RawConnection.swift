import Glibc

/// One connection of an HTTP client that shows every byte.
package final class RawConnection {
    package let descriptor: Int32

    /// - Parameter buffer: bytes that the kernel keeps for a client that does not read, nil for megabytes.
    package init(_ port: UInt16, buffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        if var buffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &buffer, socklen_t(MemoryLayout<Int32>.size))
        }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw ChildError(words: ["connect"], reason: String(cString: strerror(errno))) }
    }

    deinit { close(descriptor) }

    package func send(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// All that comes until the other side closes, or at least `count` bytes.
    package func receive(atLeast count: Int = .max) -> [UInt8] {
        var (bytes, chunk) = ([UInt8](), [UInt8](repeating: 0, count: 64 << 10))
        while bytes.count < count {
            let got = recv(descriptor, &chunk, chunk.count, 0)
            guard got > 0 else { break }
            bytes += chunk[..<got]
        }
        return bytes
    }

    /// How it ends, if nothing else comes: 0 in good order, else an errno: ECONNRESET, or EAGAIN after ten seconds.
    package func end() -> Int32 {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, 0)
        return count == 0 ? 0 : count < 0 ? errno : EMSGSIZE
    }

    /// Whether the other side closes it without another byte, within ten seconds.
    package func isClosed() -> Bool { [0, ECONNRESET].contains(end()) }
}
