import CFuse
import Glibc

/// One line of /proc/self/mountinfo (proc(5)).
package struct Mount: Sendable, Hashable {
    /// `major:minor`, unique among what is mounted now.
    package var device: String
    package var mountpoint: String
    /// `fuse.reelfs` for ours.
    package var type: String
    package var source: String
    /// The filesystem's own, as `default_permissions`.
    package var options: Set<String>

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

    /// All that this process sees, the later on top of the earlier. Never waits for any of them.
    package static func all() -> [Mount] {
        guard let file = fopen("/proc/self/mountinfo", "re") else { return [] }
        defer { fclose(file) }
        var result: [Mount] = []
        var line: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(line) }
        while getline(&line, &capacity, file) > 0, let text = line {
            if let mount = Mount(line: trimmedLine(text)) { result.append(mount) }
        }
        return result
    }
}

extension Mount {
    /// What is mounted on that directory, on top of whatever else is.
    package static func on(_ mountpoint: String) -> Mount? { all().last { $0.mountpoint == mountpoint } }

    /// Nobody has unmounted it, or mounted something else on it.
    package var isOnTop: Bool { Mount.on(mountpoint)?.device == device }
}

private func trimmedLine(_ text: UnsafePointer<CChar>) -> String {
    let line = String(cString: text)
    return line.hasSuffix("\n") ? String(line.dropLast()) : line
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

extension Mount {
    /// An extended attribute of the mount's root; nil where there is none or nobody answers. Waits for the daemon.
    package func attribute(_ name: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = getxattr(mountpoint, name, &bytes, bytes.count)
        return count >= 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    package var isOurs: Bool { type == Mount.ourType }
}
