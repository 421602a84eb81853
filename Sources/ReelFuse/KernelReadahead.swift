import Glibc

/// How far the kernel reads ahead of a program in a mount's files, in KiB.
enum KernelReadahead {
    /// What root raises it to. A fresh mount has 128, of which a served read makes requests of 128 KiB.
    ///
    /// Measured, with what the kernel then asks for: a warm file is read through the page cache a third faster, 256 KiB
    /// more made no difference that could be told from noise. Ten random pieces of 256 KiB cost 2.5 MiB in place of 5,
    /// because a read that is no larger than this is taken for what it is, not for a sequence. The first 4 MiB of a
    /// file cost 4.75 MiB in place of 4.1. A page fault in a mapping reads this much around it, 512 KiB in place of 128;
    /// at 1 MiB that and the head of a file begin to cost the origin twice.
    static let raised = 512

    /// Best effort: only root may, and not where /sys is read-only, as in most containers. What is higher stays.
    /// - Parameter device: `major:minor` of the mount, as in mountinfo.
    static func raise(_ device: String) {
        let file = open("/sys/class/bdi/\(device)/read_ahead_kb", O_RDWR | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        var text = [UInt8](repeating: 0, count: 24)
        let count = read(file, &text, text.count)
        let line = String(decoding: text.prefix(max(0, count)), as: UTF8.self)
        guard let current = line.split(separator: "\n").first.flatMap({ Int($0) }), current < raised else { return }
        let value = Array("\(raised)\n".utf8)
        _ = pwrite(file, value, value.count, 0)
    }
}
