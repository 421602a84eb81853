import Glibc
import NIOCore
import Synchronization

/// Why nothing listens: a sentence without a capital letter and a full stop.
package struct ListenError: Error {
    package var sentence: String
}

/// A socket that listens. Connections wait in it until a ``Listener`` takes it.
package final class ListenSocket: Sendable {
    /// The address as a client names it: a URL, or `unix:PATH`.
    package let address: String
    /// The file of a Unix socket, to be removed at the end.
    let file: SocketFile?
    let reach: Reach
    private let descriptor: Int32
    private let isTaken = Atomic(false)

    /// A Unix socket is its owner's alone; one that a crash left at its path is replaced.
    package init(_ address: ListenAddress) throws(ListenError) {
        let (place, name, path): (SocketAddress?, String, String?) =
            switch address {
            case .loopback(let host, let port), .network(let host, let port):
                (
                    try? SocketAddress.makeAddressResolvingHost(host, port: port),
                    host.contains(":") ? "[\(host)]" : host, nil
                )
            case .unix(let path): (try? SocketAddress(unixDomainSocketPath: path), path, path)
            }
        guard let place else {
            throw ListenError(
                sentence: path == nil
                    ? "cannot listen at \(name): there is no such host"
                    : "\(name) is too long for a socket: at most 107 bytes")
        }
        if path != nil { removeDeadSocket(place, name) }
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = socket(place.protocol.rawValue, kind, 0)
        if path != nil {
            // bind(2) takes the mode of the socket itself, less the umask.
            fchmod(number, 0o600)
        } else {
            var yes: Int32 = 1
            setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            // [::] is each address of IPv4, too, whatever the system's own choice.
            var no: Int32 = 0
            setsockopt(number, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &no, socklen_t(MemoryLayout<Int32>.size))
        }
        guard place.withSockAddr({ bind(number, $0, socklen_t($1)) }) == 0, listen(number, 128) == 0 else {
            let reason = String(cString: strerror(errno))
            close(number)
            throw ListenError(sentence: "cannot listen at \(name)\(place.port.map { ":\($0)" } ?? ""): \(reason)")
        }
        self.address = path.map { "unix:" + $0 } ?? "http://\(name):\(port(of: number))/"
        reach = Reach(address)
        file = path.map { SocketFile($0) }
        descriptor = number
    }

    deinit {
        guard !isTaken.load(ordering: .relaxed) else { return }
        close(descriptor)
        file?.remove()
    }

    /// The descriptor, which is the caller's from here on, as is the path. Called once.
    func take() -> Int32 {
        isTaken.store(true, ordering: .relaxed)
        return descriptor
    }
}

/// The file of a Unix socket. Where another user can write to its directory, another file may stand there later.
struct SocketFile {
    private let path: String
    private let own: stat

    /// Called once the socket is bound.
    init(_ path: String) {
        self.path = path
        own = Self.status(path)
    }

    /// Removes the socket, and no file that has taken its place.
    func remove() {
        let found = Self.status(path)
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino) { unlink(path) }
    }

    private static func status(_ path: String) -> stat {
        var status = stat()
        lstat(path, &status)
        return status
    }
}

private func port(of socket: Int32) -> UInt16 {
    var address = sockaddr_in6()
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    // The port lies at the same place in sockaddr_in.
    _ = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
    }
    return UInt16(bigEndian: address.sin6_port)
}

/// Removes a socket that a crash left: nothing accepts its connections.
private func removeDeadSocket(_ address: SocketAddress, _ path: String) {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
    // A server that is stopped, and has as many connections waiting as it takes, would keep a call waiting for as long.
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    defer { close(descriptor) }
    if address.withSockAddr({ connect(descriptor, $0, socklen_t($1)) }) != 0, errno == ECONNREFUSED { unlink(path) }
}
