import CFuse
import Glibc
import ReelCore

/// One line of /proc/self/mountinfo (proc(5)).
///
/// Read by hand: libmount would be one more library and C target for these 40 lines, and it also reads /run/mount/utab.
package struct Mount: Sendable, Hashable {
    /// `major:minor`, unique among the mounts of this moment.
    package var device: String
    /// The absolute path of its root.
    package var mountpoint: String
    /// The filesystem's type: `fuse.reelfs` for mounts of this program.
    package var type: String
    /// The device, or for mounts of this program SOURCE without secrets.
    package var source: String
    /// The filesystem's own options, such as `default_permissions`.
    package var options: Set<String>

    /// `type` of the mounts of this program.
    package static let ourType = "fuse.reelfs"

    /// Reads one line; nil for one of another form.
    package init?(line: some StringProtocol) {
        // Bytes: a source may begin with a mark that combines with the blank before it.
        let fields = line.utf8.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
        guard fields.count >= 10, let dash = fields.dropFirst(6).firstIndex(of: "-"), dash + 2 < fields.endIndex else {
            return nil
        }
        device = String(fields[2])
        mountpoint = unescaped(fields[4])
        type = String(fields[dash + 1])
        source = unescaped(fields[dash + 2])
        options = dash + 3 < fields.endIndex ? Set(fields[dash + 3].split(separator: ",").map { String($0) }) : []
    }

    /// All mounts that this process sees, the later on top of the earlier. It waits for none of them.
    package static func all() -> [Mount] {
        (contents(of: "/proc/self/mountinfo") ?? "").utf8.split(separator: 0x0A).compactMap {
            Mount(line: Substring($0))
        }
    }

    /// The topmost mount on a directory, nil if there is none.
    package static func on(_ mountpoint: String) -> Mount? { all().last { $0.isOn(mountpoint) } }

    /// Whether it is on this directory, byte for byte.
    package func isOn(_ mountpoint: String) -> Bool { ExactText(self.mountpoint) == ExactText(mountpoint) }

    /// Whether it is still mounted, with nothing on top of it.
    package var isOnTop: Bool { Mount.on(mountpoint)?.device == device }

    /// The user for whom it was made, as the kernel shows it; nil where it does not.
    package var user: uid_t? { options.first { $0.hasPrefix("user_id=") }.flatMap { uid_t($0.dropFirst(8)) } }

    /// Whether this program made it.
    package var isOurs: Bool { type == Mount.ourType }

    /// An extended attribute of the mount's root; nil where there is none. It waits for the daemon.
    package func attribute(_ name: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = getxattr(mountpoint, name, &bytes, bytes.count)
        return count >= 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}

/// The kernel writes space, tab, newline, backslash and `#` as `\` and three octal digits.
private func unescaped(_ field: some StringProtocol) -> String {
    var bytes: [UInt8] = []
    var rest = Array(field.utf8)[...]
    while let byte = rest.popFirst() {
        let digits = rest.prefix(3)
        if byte == UInt8(ascii: "\\"), digits.count == 3, digits.allSatisfy({ (0x30...0x37).contains($0) }) {
            bytes.append(UInt8(truncatingIfNeeded: digits.reduce(0) { $0 * 8 + Int($1 - 0x30) }))
            rest = rest.dropFirst(3)
        } else {
            bytes.append(byte)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}
