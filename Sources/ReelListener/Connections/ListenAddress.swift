import ReelCore

/// The address at which the listener listens: loopback or a Unix socket, and nothing that another machine can reach.
package enum ListenAddress: Hashable, Sendable {
    /// `127.0.0.1` or `::1`; port 0: any free one.
    case loopback(String, port: Int)
    /// The absolute path of a socket.
    case unix(String)

    /// Reads `127.0.0.1:PORT`, which is also `localhost:PORT` and `PORT`, `[::1]:PORT` or `unix:PATH`; nil where it is
    /// none of these.
    package init?(_ text: String) {
        if text.utf8.starts(with: "unix:".utf8) {
            let path = String(text.dropFirst(5))
            guard path.utf8.first == UInt8(ascii: "/"), !path.utf8.contains(0) else { return nil }
            self = .unix(path)
            return
        }
        let colon = text.lastIndex(of: ":")
        let digits = colon.map { String(text[$0...].dropFirst()) } ?? text
        guard !digits.isEmpty, let port = decimal(digits), (0...65_535).contains(port) else { return nil }
        switch colon.map({ text[..<$0] }) {
        case nil, "127.0.0.1", "localhost": self = .loopback("127.0.0.1", port: Int(port))
        case "[::1]": self = .loopback("::1", port: Int(port))
        default: return nil
        }
    }
}
