import CFuse
import Glibc
import ReelFilesystem

/// The answer to one request of the kernel. An answer consumes it; one that is dropped answers itself with EIO.
///
/// `@unchecked Sendable`: libfuse's requests may be answered from any thread ("fuse_reply_* … may be called from any
/// thread", fuse_lowlevel.h speaks of one reply a request only).
struct Reply: ~Copyable, @unchecked Sendable {
    private let request: fuse_req_t

    init(_ request: fuse_req_t) { self.request = request }

    deinit {
        Adapter.of(request).logger.error("a request was left unanswered", metadata: ["errno": "EIO"])
        fuse_reply_err(request, EIO)
    }

    /// Runs `body` with libfuse's request, which lives until it is answered.
    borrowing func withRequest<Value>(_ body: (fuse_req_t) -> Value) -> Value { body(request) }

    /// Answers. - Parameter answer: calls one of libfuse's `fuse_reply_…`, and returns its result.
    /// - Returns: false where the kernel did not take the answer, as it no longer waits.
    @discardableResult
    consuming func send(_ answer: (fuse_req_t) -> Int32) -> Bool {
        let code = answer(request)
        discard self
        return code == 0
    }

    /// Answers without a value. - Parameter code: an errno; 0 for "done".
    consuming func end(_ code: Int32) { send { fuse_reply_err($0, code) } }

    /// Gives no answer, as another process will. libfuse's request is left where it is, and the process ends soon.
    consuming func drop() { discard self }

    consuming func fail(_ error: VolumeError) { end(error.errno) }

    consuming func bytes(_ bytes: UnsafeRawBufferPointer) {
        send { fuse_reply_buf($0, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) }
    }

    /// Answers getxattr(2) or listxattr(2): with the length where `room` is 0, else with the bytes or ERANGE.
    consuming func attribute(_ value: Result<[UInt8], VolumeError>, room: Int) {
        switch value {
        case .failure(let error): fail(error)
        case .success(let value) where room == 0: send { fuse_reply_xattr($0, value.count) }
        case .success(let value) where value.count > room: end(ERANGE)
        case .success(let value):
            send { request in
                value.withUnsafeBytes {
                    fuse_reply_buf(request, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
                }
            }
        }
    }
}
