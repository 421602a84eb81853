import CFuse
import Glibc
import ReelVolume

/// The answer one kernel request is owed. Answering consumes it; one that nobody answered answers itself with EIO.
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

    /// - Parameter code: an errno; 0 for "done".
    consuming func end(_ code: Int32) {
        fuse_reply_err(request, code)
        discard self
    }

    consuming func fail(_ error: VolumeError) { end(error.errno) }

    /// To forgets, which the kernel wants no answer for.
    consuming func nothing() {
        fuse_reply_none(request)
        discard self
    }

    consuming func bytes(_ bytes: UnsafeRawBufferPointer) {
        fuse_reply_buf(request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        discard self
    }

    /// The size-0 protocol of getxattr(2) and listxattr(2): how long, or the bytes, or ERANGE.
    consuming func attribute(_ value: [UInt8], room: Int) {
        if room == 0 {
            fuse_reply_xattr(request, value.count)
        } else if value.count > room {
            fuse_reply_err(request, ERANGE)
        } else {
            value.withUnsafeBytes {
                _ = fuse_reply_buf(request, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
            }
        }
        discard self
    }

    /// false: the kernel did not take it (it no longer waits), so no reference is counted.
    consuming func entry(_ entry: fuse_entry_param) -> Bool {
        let code = withUnsafePointer(to: entry) { fuse_reply_entry(request, $0) }
        discard self
        return code == 0
    }

    consuming func attributes(_ stat: stat, timeout: Double) {
        _ = withUnsafePointer(to: stat) { fuse_reply_attr(request, $0, timeout) }
        discard self
    }

    /// false: the kernel did not take it, and will send no release.
    consuming func open(_ info: fuse_file_info) -> Bool {
        let code = withUnsafePointer(to: info) { fuse_reply_open(request, $0) }
        discard self
        return code == 0
    }

    /// As `open`; the kernel reads the backing file of that number.
    consuming func open(_ info: fuse_file_info, backing: Int32) -> Bool {
        let code = reel_reply_open_passthrough(request, info, backing)
        discard self
        return code == 0
    }

    consuming func capacity(_ capacity: statvfs) {
        _ = withUnsafePointer(to: capacity) { fuse_reply_statfs(request, $0) }
        discard self
    }
}
