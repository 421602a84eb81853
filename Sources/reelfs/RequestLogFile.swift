import Glibc
import ReelVolume

/// The file of `--request-log`: a JSON object a line, added at the end. Only its owner may read it, as it tells what is
/// watched.
final class RequestLogFile: Sendable {
    private let descriptor: Int32

    init(_ path: String) throws(Failure) {
        descriptor = open(absolute(path), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else {
            throw .mount("cannot write the request log \(shown(path)): \(reason())")
        }
    }

    deinit { close(descriptor) }

    /// A line that the disk does not take is lost.
    func write(_ record: RequestRecord) {
        let line = encodeLine(record)
        _ = Glibc.write(descriptor, line, line.count)
    }
}
