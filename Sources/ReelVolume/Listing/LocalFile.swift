import Glibc
import ReelCore
import ReelSources

/// The state of a local file when it was read.
struct FileStamp: Equatable, Sendable {
    fileprivate let device: UInt
    private let numbers: [Int]
    /// The same as in ``OpenedList``.
    let isTrusted: Bool

    fileprivate init(_ status: stat, isTrusted: Bool) {
        self.isTrusted = isTrusted
        device = UInt(status.st_dev)
        numbers = [
            Int(truncatingIfNeeded: status.st_ino), Int(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
        ]
    }
}

/// A local list as the program has opened it.
package enum OpenedList: Sendable {
    /// - Parameter isTrusted: the origins that it names may get the user's secrets.
    case file(Int32, isTrusted: Bool)
    /// - Parameter reason: for the log and the mount's error.
    case failed(_ reason: String)

    /// Opens any file that this process can read, and trusts it.
    @Sendable package static func open(_ path: String) -> OpenedList {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        return descriptor < 0 ? .failed(String(cString: strerror(errno))) : .file(descriptor, isTrusted: true)
    }
}

/// A list on the local disk. It must be a regular file: a pipe or a device might keep the mount waiting forever.
enum LocalFile {
    enum Outcome: Sendable {
        case bytes([UInt8], FileStamp)
        /// It has not changed since it was read before.
        case unchanged
        /// It does not exist or cannot be read, for this reason.
        case missing(String)
        case refused(SourceRefusal)
    }

    static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// - Parameter known: the state that was read before.
    static func read(_ opened: OpenedList, unless known: FileStamp?) -> Outcome {
        let (descriptor, isTrusted): (Int32, Bool)
        switch opened {
        case .failed(let reason): return .missing(reason)
        case .file(let file, let trust): (descriptor, isTrusted) = (file, trust)
        }
        defer { close(descriptor) }
        guard let status = regular(descriptor) else { return .refused(.useless("it is no regular file")) }
        let stamp = FileStamp(status, isTrusted: isTrusted)
        if stamp == known { return .unchanged }
        // The mount may lie over the list, with a file of that name in it.
        guard known.map({ $0.device == stamp.device }) ?? true else {
            return .missing("another filesystem is mounted over it")
        }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= SourceAnswer.limit {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0 { return .missing(String(cString: strerror(errno))) }
            if count > 0 {
                bytes += buffer[..<count]
                continue
            }
            // A change that goes on may have left half of it old.
            let isSame = regular(descriptor).map { FileStamp($0, isTrusted: isTrusted) } == stamp
            return isSame ? .bytes(bytes, stamp) : .refused(.cutShort)
        }
        return .refused(.useless("a list has \(SourceAnswer.limit >> 20) MiB at most"))
    }

    private static func regular(_ descriptor: Int32) -> stat? {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG ? status : nil
    }
}
