import CFuse
import Glibc

/// One line of /proc/self/mountinfo (proc(5)).
///
/// Read by hand: libmount would be one more library and C target for these 40 lines, and it also reads /run/mount/utab,
/// which is not wanted here.
package struct Mount: Sendable, Hashable {
    /// `major:minor`, unique among what is mounted now.
    package var device: String
    /// Absolute.
    package var mountpoint: String
    /// `fuse.reelfs` for ours.
    package var type: String
    /// SOURCE of a mount of ours, without secrets.
    package var source: String
    /// The filesystem's own, as `default_permissions`.
    package var options: Set<String>

    /// `type` of the mounts of this program.
    package static let ourType = "fuse.reelfs"

    /// Reads one line; nil where it is none.
    package init?(line: some StringProtocol) {
        let fields = line.split(separator: " ")
        guard fields.count >= 10, let dash = fields.dropFirst(6).firstIndex(of: "-"), dash + 2 < fields.endIndex else {
            return nil
        }
        device = String(fields[2])
        mountpoint = unescaped(fields[4])
        type = String(fields[dash + 1])
        source = unescaped(fields[dash + 2])
        options = dash + 3 < fields.endIndex ? Set(fields[dash + 3].split(separator: ",").map { String($0) }) : []
    }

    /// All mounts that this process sees, the later on top of the earlier. Never waits for any of them.
    package static func all() -> [Mount] {
        (contents(of: "/proc/self/mountinfo") ?? "").utf8.split(separator: 0x0A).compactMap {
            Mount(line: Substring($0))
        }
    }

    /// The topmost mount on that directory.
    package static func on(_ mountpoint: String) -> Mount? { all().last { $0.mountpoint == mountpoint } }

    /// True until it is unmounted, or something else is mounted on it.
    package var isOnTop: Bool { Mount.on(mountpoint)?.device == device }

    /// Made by this program.
    package var isOurs: Bool { type == Mount.ourType }

    /// An extended attribute of the mount's root; nil where there is none or the daemon does not answer. Waits for it.
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
