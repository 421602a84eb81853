import Glibc
import ReelCore

/// The part of a client's address that counts as one client: whoever has one address of IPv6 has all of its /64.
package enum ClientPlace: Hashable, Sendable {
    /// A Unix socket, or loopback.
    case thisMachine
    case ipv4(UInt32)
    /// The first 64 bits.
    case ipv6(UInt64)

    /// - Parameter text: an address as programs write it, in brackets and with a port or without; nil where it is none.
    package init?(_ text: String) {
        var (four, six) = (in_addr(), in6_addr())
        let bare = text.hasPrefix("[") ? String(text.dropFirst().prefix { $0 != "]" }) : text
        if inet_pton(AF_INET, bare, &four) == 1 || inet_pton(AF_INET, withoutPort(bare), &four) == 1 {
            self.init(ipv4: UInt32(bigEndian: four.s_addr))
            return
        }
        guard inet_pton(AF_INET6, bare, &six) == 1 else { return nil }
        let bytes = withUnsafeBytes(of: six) { Array($0) }
        let number = { (range: Range<Int>) in bytes[range].reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        let (first, last) = (number(0..<8), number(8..<16))
        switch (first, last >> 32) {
        // An IPv4 address, as a socket of both kinds shows it (RFC 4291, section 2.5.5.2).
        case (0, 0xFFFF): self.init(ipv4: UInt32(truncatingIfNeeded: last))
        case (0, 0) where last == 1: self = .thisMachine
        default: self = .ipv6(first)
        }
    }

    private init(ipv4 address: UInt32) { self = address >> 24 == 127 ? .thisMachine : .ipv4(address) }
}
