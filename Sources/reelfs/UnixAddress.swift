import Glibc

/// The address of a Unix socket.
struct UnixAddress {
    private var address = sockaddr_un()

    /// nil where the path is longer than such an address can be (107 bytes).
    init?(_ path: String) {
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    }

    func connect(_ descriptor: Int32) -> Int32 {
        withPointer { Glibc.connect(descriptor, $0, $1) }
    }

    func bind(_ descriptor: Int32) -> Int32 {
        withPointer { Glibc.bind(descriptor, $0, $1) }
    }

    private func withPointer(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// Calls `body` with an address that reaches `path`, however long it is: through an open descriptor of its directory.
    static func reaching<Value>(_ path: String, _ body: (UnixAddress) -> Value) -> Value? {
        guard let slash = path.lastIndex(of: "/") else { return nil }
        let directory = open(
            slash == path.startIndex ? "/" : String(path[..<slash]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return nil }
        defer { close(directory) }
        return UnixAddress("/proc/self/fd/\(directory)\(path[slash...])").map(body)
    }
}
