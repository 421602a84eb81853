import Glibc

/// The address of a Unix socket.
struct UnixAddress {
    private var address = sockaddr_un()
    private var length = socklen_t(MemoryLayout<sockaddr_un>.size)

    /// nil if the path is longer than such an address can be (107 bytes).
    init?(_ path: String) {
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    }

    /// A path, or `@NAME`: a socket of the abstract namespace (unix(7)). nil for anything else.
    init?(socketName name: String) {
        guard name.utf8.first == UInt8(ascii: "@") else {
            guard name.utf8.first == UInt8(ascii: "/") else { return nil }
            self.init(name)
            return
        }
        self.init(name)
        address.sun_path.0 = 0
        // Every byte within the length counts, zeros included, so it ends with the name.
        length = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + name.utf8.count)
    }

    /// Sends one datagram from a socket of its own.
    /// - Parameter patience: seconds to wait for a receiver whose queue is full.
    /// - Returns: whether it was taken.
    @discardableResult func send(_ bytes: [UInt8], patience: Int = 0) -> Bool {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: patience, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let flags = Int32(MSG_NOSIGNAL | (patience == 0 ? MSG_DONTWAIT : 0))
        return withPointer { sendto(descriptor, bytes, bytes.count, flags, $0, $1) } == bytes.count
    }

    func connect(_ descriptor: Int32) -> Int32 {
        withPointer { Glibc.connect(descriptor, $0, $1) }
    }

    func bind(_ descriptor: Int32) -> Int32 {
        withPointer { Glibc.bind(descriptor, $0, $1) }
    }

    private func withPointer<Value>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Value) -> Value {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    /// Calls `body` with an address of `path`, however long it is: through an open descriptor of its directory.
    static func reaching<Value>(_ path: String, _ body: (UnixAddress) -> Value) -> Value? {
        guard let (above, name) = cutAtLastSlash(path) else { return nil }
        let directory = open(above.isEmpty ? "/" : above, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return nil }
        defer { close(directory) }
        return UnixAddress("/proc/self/fd/\(directory)/\(name)").map(body)
    }
}
