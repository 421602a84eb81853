import Glibc
import ReelCache
import ReelThreads
import ReelVolume
import Synchronization

/// The file of `--request-log`: a JSON object a line, added at the end. Only its owner may read it, as it shows what is
/// watched.
///
/// A file that is full becomes `NAME.1`, in place of an earlier one, so that the log has a bounded size.
final class RequestLogFile: Sendable {
    private let path: String
    /// Stays the same: a file that is opened later takes its place (dup2(2)), while other threads write.
    private let descriptor: Int32
    private let limit: Int64
    private let warn: @Sendable (String) -> Void
    private let hasWarned = Atomic(false)
    /// One thread at a time replaces the file.
    private let turn = Lock(())

    /// Bytes of a file: some hundred thousand lines.
    static let limit: Int64 = 64 << 20

    /// - Parameter warn: gets a sentence, once, where a full file stays.
    init(
        _ path: String, limit: Int64 = RequestLogFile.limit, warn: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(Failure) {
        self.path = absolute(path)
        self.limit = limit
        self.warn = warn
        descriptor = try Self.open(self.path)
    }

    deinit { close(descriptor) }

    /// A line that the disk does not take is lost. A full file that cannot be renamed is written on.
    func write(_ record: RequestRecord) {
        let line = encodeLine(record)
        if isFull(with: line.count), let flaw = replace(with: line.count),
            !hasWarned.exchange(true, ordering: .relaxed)
        {
            warn("the request log \(shown(path)) is full and goes on growing: \(flaw)")
        }
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

    /// - Returns: why the full file stays; nil if it was replaced.
    private func replace(with more: Int) -> String? {
        turn.withLock { _ in
            // Another thread may have done so.
            guard isFull(with: more), let (above, name) = cutAtLastSlash(path) else { return nil }
            let directory: Int32
            do throws(PathError) {
                directory = try openTrusted(above, O_RDONLY | O_DIRECTORY, groupsMayWrite: true)
            } catch {
                return "\(error)"
            }
            defer { close(directory) }
            let own = status
            var there = stat()
            // Another process may have done so.
            let isThere = fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0
            if isThere, (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino),
                renameat(directory, name, directory, name + ".1") != 0
            {
                return reason()
            }
            do throws(Failure) { try take() } catch { return error.sentence }
            return nil
        }
    }
}
