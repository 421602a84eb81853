import Glibc
import ReelCore

/// From where an address can be reached: an address of a narrower reach than the source's own is no place for a
/// redirect to lead to. Services that trust each caller inside of a network, or of a machine, would be asked in our
/// name.
package enum AddressReach: Int, Comparable, Sendable {
    /// From everywhere.
    case everywhere
    /// From a private network: RFC 1918, RFC 6598 (shared), RFC 4193 (unique local), RFC 3879 (site local).
    case site
    /// From one link: RFC 3927, RFC 4291. Clouds hand out a machine's keys there.
    case link
    /// From this machine: loopback, and the unspecified address, which leads there.
    case machine

    package static func < (one: AddressReach, other: AddressReach) -> Bool { one.rawValue < other.rawValue }

    /// - Parameter host: of a URL, or an address as inet_ntop(3) writes it.
    /// - Returns: nil for a name other than `localhost`.
    init?(host: String) {
        let plain = String(host.drop { $0 == "[" }.prefix { $0 != "%" && $0 != "]" })
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, plain, &bytes) == 1 {
            self.init(v4: Array(bytes.prefix(4)))
        } else if inet_pton(AF_INET6, plain, &bytes) == 1 {
            self.init(v6: bytes)
        } else if plain == "localhost" || plain.hasSuffix(".localhost") {
            self = .machine
        } else {
            return nil
        }
    }

    /// The reason of a request that fails for it.
    static func refusal(of host: String) -> String { "\(host): a redirect to an address inside of a private network" }

    private init(v4 bytes: [UInt8]) {
        switch (bytes[0], bytes[1]) {
        case (0, _), (127, _): self = .machine
        case (169, 254): self = .link
        case (10, _), (172, 16...31), (192, 168), (100, 64...127): self = .site
        default: self = .everywhere
        }
    }

    private init(v6 bytes: [UInt8]) {
        let start = Array(bytes[..<12])
        let isMapped = start == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
        // RFC 6052: an IPv4 address behind NAT64.
        let isTranslated = start == [0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]
        if isMapped || isTranslated {
            self.init(v4: Array(bytes[12...]))
        } else if bytes[..<15].allSatisfy({ $0 == 0 }), bytes[15] <= 1 {
            self = .machine
        } else if bytes[..<2] == [0x20, 0x02] {
            // RFC 3056: 6to4.
            self.init(v4: Array(bytes[2..<6]))
        } else if start.allSatisfy({ $0 == 0 }) {
            // RFC 4291, section 2.5.5.1: the older form of an IPv4 address.
            self.init(v4: Array(bytes[12...]))
        } else {
            switch (bytes[0], bytes[1]) {
            case (0xFE, 0x80...0xBF): self = .link
            case (0xFE, 0xC0...0xFF), (0xFC...0xFD, _): self = .site
            default: self = .everywhere
            }
        }
    }
}
