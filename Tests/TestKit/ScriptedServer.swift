import Glibc
import ReelCore
import ReelThreads
import Synchronization

/// An HTTP/1.1 server on loopback whose every byte the test decides: a closure gives the steps of each answer.
///
///     let server = try ScriptedServer { request in
///         request.path == "/film" ? ServerStep.answer(body: "bytes") : ServerStep.answer(404)
///     }
///     defer { server.stop() }
///     fetch(server.url("/film"))
///
/// A thread accepts, one more serves each connection; the closure is called on these, so several may run at once.
package final class ScriptedServer: Sendable {
    package typealias Script = @Sendable (ServerRequest) -> [ServerStep]

    package let port: UInt16
    let script: Script
    let log = Mutex(Log())
    private let listener: Int32
    private let threads = Mutex<[Thread]>([])
    private let placeholder = Mutex<Int32>(-1)

    struct Log {
        var requests: [ServerRequest] = []
        var connections = 0
        var bodyBytes: Int64 = 0
        var open: Set<Int32> = []
        var isStopped = false
    }

    /// - Parameters:
    ///   - port: that of a server which was stopped, to stand in its place; 0: any.
    ///   - isPublic: listens on every address, not on loopback alone: for a network of the test's own.
    package init(port wanted: UInt16 = 0, isPublic: Bool = false, _ script: @escaping Script) throws(ServerError) {
        self.script = script
        let (descriptor, bound) = boundSocket(wanted, isPublic: isPublic)
        guard let bound, listen(descriptor, 1024) == 0 else {
            let number = errno
            close(descriptor)
            throw ServerError(errno: number)
        }
        listener = descriptor
        port = bound
        // Under the lock: the first one of all, also where a client comes at once.
        threads.withLock { $0.append(startThread { [self] in acceptConnections() }) }
    }

    /// - Parameter host: `localhost` is another host than `127.0.0.1` to the client, and the same server.
    package func url(_ target: String, host: String = "127.0.0.1", credentials: String? = nil) -> ResourceURL {
        ResourceURL("http://\(credentials.map { $0 + "@" } ?? "")\(host):\(port)\(target)")!
    }

    /// All requests read so far.
    package var requests: [ServerRequest] { log.withLock { $0.requests } }
    /// Connections accepted so far.
    package var connectionCount: Int { log.withLock { $0.connections } }
    /// Connections that neither side has closed.
    package var openConnectionCount: Int { log.withLock { $0.open.count } }
    /// Bytes of bodies that were handed to the kernel so far. A client that leaves early has not read all of them.
    package var bodyBytesSent: Int64 { log.withLock { $0.bodyBytes } }

    deinit {
        let number = placeholder.withLock { $0 }
        if number >= 0 { close(number) }
    }

    /// The same, a moment later where need be: what a client has is counted when the server's thread runs again.
    package func bodyBytesSent(atLeast bytes: Int64) -> Int64 {
        eventually { bodyBytesSent >= bytes }
        return bodyBytesSent
    }

    /// Ends all connections and threads. Whoever started the server calls it. Its port refuses from then on, and is
    /// given to nobody who does not ask for it, as long as this value lives.
    package func stop() {
        let mine = log.withLock { log in
            defer { log.isStopped = true }
            return !log.isStopped
        }
        guard mine else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        threads.withLock { $0.removeFirst() }.join()
        log.withLock { for descriptor in $0.open { shutdown(descriptor, Int32(SHUT_RDWR)) } }
        for thread in threads.withLock({ $0 }) { thread.join() }
        close(listener)
        placeholder.withLock { $0 = boundSocket(port, isPublic: false).descriptor }
    }

    private func acceptConnections() {
        while true {
            let descriptor = accept(listener, nil, nil)
            if descriptor < 0 {
                if errno == EINTR || errno == ECONNABORTED { continue }
                return
            }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            let number = log.withLock { log in
                log.open.insert(descriptor)
                log.connections += 1
                return log.connections - 1
            }
            let thread = startThread { [self] in
                var connection = ServerConnection(descriptor: descriptor, number: number, server: self)
                connection.serve()
                // The number may be used again at once: out of the list first, so that `stop` shuts nobody else's.
                log.withLock { _ = $0.open.remove(descriptor) }
                close(descriptor)
            }
            threads.withLock { $0.append(thread) }
        }
    }
}

package struct ServerError: Error {
    package var errno: Int32
}

/// - Returns: a socket, and the port that it has; nil where it has none.
private func boundSocket(_ port: UInt16, isPublic: Bool) -> (descriptor: Int32, port: UInt16?) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var yes: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_port = port.bigEndian
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = isPublic ? 0 : UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
        }
    }
    return (descriptor, isBound ? UInt16(bigEndian: address.sin_port) : nil)
}
