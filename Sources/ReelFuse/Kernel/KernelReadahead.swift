import Glibc

/// How far the kernel reads ahead of a program in a mount's files, in KiB.
enum KernelReadahead {
    /// The value that root sets. A fresh mount has 128, and a served read then makes requests of 128 KiB.
    ///
    /// Measured with requests as long as the value: a warm file is read a third faster through the daemon, with 256,
    /// 512 and 1024 alike. The bytes that the kernel asks for decide between them: ten random pieces of 256 KiB cost
    /// 2.5 MiB here, 5 with 128 and 7.5 with 256, because the kernel reads a piece smaller than the value as it is, and
    /// takes a larger one for the start of a sequence. The first 4 MiB of a file cost 4.75 MiB instead of 4.1, and a
    /// page fault in a mapping 512 KiB instead of 128; with 1024 both cost the origin more than twice as much.
    static let raised = 512

    /// The value while a program looks into many files one after another, so that what the kernel reads ahead of it
    /// lies in the two blocks that an open asks for: ffprobe reads 80 KB of a Matroska film, and makes the kernel ask
    /// for 192 instead of 448. It holds for files that are opened meanwhile.
    static let short = 64

    /// Raises it where that is possible: only root may, and not where /sys is read-only, as in most containers. A
    /// higher value stays.
    /// - Parameter device: `major:minor` of the mount, as in mountinfo.
    static func raise(_ device: String) { set(device, raised) { $0 < raised } }

    /// Makes it short, or as long again as it was. A value that neither call has set stays.
    static func shorten(_ device: String, _ isShort: Bool) {
        set(device, isShort ? short : raised) { $0 == (isShort ? raised : short) }
    }

    private static func set(_ device: String, _ value: Int, where isMeant: (Int) -> Bool) {
        let path = "/sys/class/bdi/\(device)/read_ahead_kb"
        guard let current = contents(of: path)?.split(separator: "\n").first.flatMap({ Int($0) }), isMeant(current),
            let file = fopen(path, "r+e")
        else { return }
        fputs("\(value)\n", file)
        fclose(file)
    }
}
