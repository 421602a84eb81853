import Glibc
import ReelCache
import ReelThreads
import ReelVolume

/// The file of `--request-log`: a JSON object a line, added at the end. Only its owner may read it, as it tells what is
/// watched.
///
/// A file that is full becomes `NAME.1`, in place of an earlier one, so that the log has a bounded size.
final class RequestLogFile: Sendable {
    private let path: String
    /// Stays the same: a file that is opened later takes its place (dup2(2)), while other threads write.
    private let descriptor: Int32
    private let limit: Int64
    /// One thread at a time replaces the file.
    private let turn = Lock(())

    /// Bytes of a file: some hundred thousand lines.
    static let limit: Int64 = 64 << 20

    init(_ path: String, limit: Int64 = RequestLogFile.limit) throws(Failure) {
        self.path = absolute(path)
        self.limit = limit
        descriptor = try Self.open(self.path)
    }

    deinit { close(descriptor) }

    /// A line that the disk does not take is lost, as is one for which there is no room.
    func write(_ record: RequestRecord) {
        let line = encodeLine(record)
        if isFull(with: line.count) { replace(with: line.count) }
        if isFull(with: line.count) { return }
        _ = Glibc.write(descriptor, line, line.count)
    }

    /// Opens the file at the path, where logrotate(8) may have moved the present one away.
    func reopen() throws(Failure) { try turn.withLock { _ in Result { () throws(Failure) in try take() } }.get() }

    private static func open(_ path: String) throws(Failure) -> Int32 {
        try NamedFile(path, kind: "request log", for: .log).descriptor
    }

    private func take() throws(Failure) {
        let next = try Self.open(path)
        dup2(next, descriptor)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        close(next)
    }

    private var status: stat {
        var status = stat()
        fstat(descriptor, &status)
        return status
    }

    private func isFull(with more: Int) -> Bool {
        let size = Int64(status.st_size)
        return size > 0 && size + Int64(more) > limit
    }

    private func replace(with more: Int) {
        turn.withLock { _ in
            // Another thread may have done so.
            guard isFull(with: more), let slash = path.lastIndex(of: "/"),
                let directory = try? openTrusted(String(path[...slash]), O_RDONLY | O_DIRECTORY)
            else { return }
            defer { close(directory) }
            let name = String(path[path.index(after: slash)...])
            let own = status
            var there = stat()
            // Another process may have done so.
            let isThere = fstatat(directory, name, &there, 0) == 0
            if isThere, (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) {
                renameat(directory, name, directory, name + ".1")
            }
            try? take()
        }
    }
}
