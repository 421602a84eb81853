import Glibc
import ReelCore

/// The address at which the listener listens.
package enum ListenAddress: Hashable, Sendable {
    /// `127.0.0.1` or `::1`; port 0: any free one.
    case loopback(String, port: Int)
    /// An address of this machine that others may reach, or a name, which is looked up when the socket is opened.
    /// `0.0.0.0`: each IPv4 address; `::`: each address.
    case network(String, port: Int)
    /// The absolute path of a socket.
    case unix(String)

    /// Reads `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`; `PORT`, `:PORT` and `localhost:PORT` mean 127.0.0.1. nil where
    /// it is none of these. Other addresses of loopback and names count as those of the network, wherever they lead.
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
        let host = asciiLowercased(colon.map { text[..<$0] } ?? "")
        switch host {
        case "", "127.0.0.1", "localhost": self = .loopback("127.0.0.1", port: Int(port))
        case "[::1]": self = .loopback("::1", port: Int(port))
        default:
            let inner = isBracketed(host) ? String(host.dropFirst().dropLast()) : host
            guard isBracketed(host) ? isIPv6(inner) : isName(inner) else { return nil }
            self = .network(inner, port: Int(port))
        }
    }
}

/// Who can reach a server, and so by which hosts a request may name it.
package enum Reach: Sendable {
    /// The owner of a Unix socket, and a proxy: by any name.
    case socket
    /// Programs of this machine.
    case loopback
    /// Others, too.
    /// - Parameter names: by which they know this machine, in lower case.
    case network(names: Set<String>)

    /// Who reaches an address of this machine: by the name that was given, or the machine's own, with its domain,
    /// without, or in `.local` (RFC 6762).
    init(_ address: ListenAddress) {
        switch address {
        case .unix: self = .socket
        case .loopback: self = .loopback
        case .network(let host, _):
            var buffer = [CChar](repeating: 0, count: 256)
            gethostname(&buffer, buffer.count - 1)
            let name = asciiLowercased(String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self))
            let label = String(name.prefix { $0 != "." })
            self = .network(names: [host, name, label, label + ".local"])
        }
    }

    /// Whether a request may name a host. - Parameter host: in lower case, without a port.
    func contains(_ host: String) -> Bool {
        switch self {
        case .socket: true
        case .loopback: ["localhost", "127.0.0.1", "[::1]"].contains(host)
        // A page is at an address only if that machine sent it, so that no name can be made to point here.
        case .network(let names):
            host == "localhost" || names.contains(host) || isIPv4(host)
                || isBracketed(host) && isIPv6(String(host.dropFirst().dropLast()))
        }
    }
}

/// The scheme and authority by which browsers know the server behind a proxy, as `Origin` has it (RFC 6454).
package struct ServedOrigin: Hashable, Sendable {
    /// In lower case, without the scheme's own port: `https://films.example`.
    package let text: String
    /// The text in `Host`, with a port where it is not the scheme's own.
    var authority: String
    /// Without the port.
    var host: String

    /// Reads `http://HOST`, `https://HOST:PORT`; a slash may follow. nil for anything else.
    package init?(_ given: String) {
        let lower = asciiLowercased(given)
        guard let scheme = ["https", "http"].first(where: { lower.hasPrefix($0 + "://") }) else { return nil }
        var rest = String(lower.dropFirst(scheme.count + 3))
        if rest.hasSuffix("/") { rest.removeLast() }
        let own = scheme == "https" ? ":443" : ":80"
        if rest.hasSuffix(own) { rest = String(rest.dropLast(own.count)) }
        host = withoutPort(rest)
        let port = rest.dropFirst(host.count + 1)
        guard isBracketed(host) ? isIPv6(String(host.dropFirst().dropLast())) : isName(host),
            host == rest || decimal(String(port)).map({ (1...65_535).contains($0) }) == true
        else { return nil }
        authority = rest
        text = scheme + "://" + rest
    }
}

/// The host of an authority: what stands before the last colon, if only digits follow it.
func withoutPort(_ authority: String) -> String {
    guard let colon = authority.lastIndex(of: ":"), authority[colon...].dropFirst().utf8.allSatisfy(isDigit) else {
        return authority
    }
    return String(authority[..<colon])
}

private func isBracketed(_ host: String) -> Bool { host.hasPrefix("[") && host.hasSuffix("]") && host.count > 2 }

private func isName(_ host: String) -> Bool {
    !host.isEmpty && host.utf8.first != UInt8(ascii: ".")
        && host.utf8.allSatisfy { isDigit($0) || (0x61...0x7A).contains($0) || "-._".utf8.contains($0) }
}

private func isIPv4(_ text: String) -> Bool {
    var address = in_addr()
    return inet_pton(AF_INET, text, &address) == 1
}

/// An address, perhaps with the interface behind a `%`.
private func isIPv6(_ text: String) -> Bool {
    let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    var address = in6_addr()
    return inet_pton(AF_INET6, String(parts[0]), &address) == 1 && (parts.count == 1 || isName(String(parts[1])))
}
