import CFuse
import Glibc
import Synchronization

/// Asks for passthrough in the reply to INIT where libfuse, before 3.17, does not know how.
///
/// libfuse reads and writes its device through the two functions here. The first request is INIT, and all others wait
/// for its answer; after it the functions only pass bytes on.
final class Handshake: Sendable {
    /// The number of the INIT that offered passthrough; 0: none has.
    private let offered = Atomic<UInt64>(0)
    private let isOver = Atomic(false)

    /// Puts the two functions into a session. - Returns: false where libfuse refused.
    static func intercept(_ session: OpaquePointer) -> Bool { reel_intercept(session, writeReply, readRequest) == 0 }

    fileprivate func received(_ request: UnsafeRawBufferPointer) {
        guard !isOver.load(ordering: .relaxed) else { return }
        if InitExchange.offersPassthrough(request) {
            offered.store(InitExchange.unique(of: request), ordering: .sequentiallyConsistent)
        }
    }

    /// Changes the reply to INIT. - Returns: whether it now asks for passthrough.
    fileprivate func amend(
        header: UnsafeRawBufferPointer, body: UnsafeMutableRawBufferPointer?, depth: UInt32
    ) -> Bool {
        guard !isOver.load(ordering: .relaxed) else { return false }
        isOver.store(true, ordering: .sequentiallyConsistent)
        let number = offered.load(ordering: .sequentiallyConsistent)
        guard number != 0, let body, InitExchange.isSuccess(header, of: number) else { return false }
        return InitExchange.askForPassthrough(body, depth: depth)
    }
}

/// The offsets of INIT's request and reply that passthrough needs (linux/fuse.h of Linux 6.9, protocol 7.40).
enum InitExchange {
    private static let opcode: UInt32 = 26
    /// FUSE_INIT_EXT: the second word of flags counts. FUSE_PASSTHROUGH is bit 37, the second word's bit 5.
    private static let extended: UInt32 = 1 << 30
    private static let passthrough: UInt32 = 1 << 5

    /// fuse_in_header is 40 bytes, then fuse_init_in: major, minor, max_readahead, flags, flags2.
    static func offersPassthrough(_ request: UnsafeRawBufferPointer) -> Bool {
        moreFlags(request) & passthrough != 0 && word(request, 44) >= 40
    }

    /// The second word; 0 where the request has none.
    private static func moreFlags(_ request: UnsafeRawBufferPointer) -> UInt32 {
        guard isRequest(request), request.count >= 60, word(request, 52) & extended != 0 else { return 0 }
        return word(request, 56)
    }

    static func isRequest(_ request: UnsafeRawBufferPointer) -> Bool {
        request.count >= 56 && word(request, 4) == opcode
    }

    /// Whether the kernel gives requests again that an earlier process has left unanswered (FUSE_HAS_RESEND, bit 39;
    /// Linux 6.9).
    static func offersResend(_ request: UnsafeRawBufferPointer) -> Bool {
        moreFlags(request) & 1 << 7 != 0
    }

    /// The same request with a number that the kernel does not wait for.
    static func replay(_ request: [UInt8]) -> [UInt8] {
        var request = request
        // Even: the lowest bit marks interrupts.
        request.withUnsafeMutableBytes { $0.storeBytes(of: 1 << 62, toByteOffset: 8, as: UInt64.self) }
        return request
    }

    static func unique(of request: UnsafeRawBufferPointer) -> UInt64 {
        request.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
    }

    /// fuse_out_header: length, error, unique.
    static func isSuccess(_ header: UnsafeRawBufferPointer, of unique: UInt64) -> Bool {
        header.count >= 16 && word(header, 4) == 0
            && header.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == unique
    }

    /// fuse_init_out: flags at 12, flags2 at 32, max_stack_depth at 36. - Returns: false where the reply is shorter.
    static func askForPassthrough(_ reply: UnsafeMutableRawBufferPointer, depth: UInt32) -> Bool {
        guard reply.count >= 40 else { return false }
        let read = UnsafeRawBufferPointer(reply)
        reply.storeBytes(of: word(read, 12) | extended, toByteOffset: 12, as: UInt32.self)
        reply.storeBytes(of: word(read, 32) | passthrough, toByteOffset: 32, as: UInt32.self)
        reply.storeBytes(of: depth, toByteOffset: 36, as: UInt32.self)
        return true
    }

    private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
    }
}

/// read(2) of the device.
private func readRequest(
    _ device: Int32, _ buffer: UnsafeMutableRawPointer?, _ size: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    let count = read(device, buffer, size)
    guard count > 0, let context else { return count }
    Unmanaged<Adapter>.fromOpaque(context)._withUnsafeGuaranteedRef {
        $0.handshake.received(UnsafeRawBufferPointer(start: buffer, count: count))
    }
    return count
}

/// writev(2) of the device.
private func writeReply(
    _ device: Int32, _ parts: UnsafeMutablePointer<iovec>?, _ count: Int32, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let parts, let context else { return writev(device, parts, count) }
    Unmanaged<Adapter>.fromOpaque(context)._withUnsafeGuaranteedRef { adapter in
        let header = UnsafeRawBufferPointer(start: parts[0].iov_base, count: parts[0].iov_len)
        let body = count > 1 ? UnsafeMutableRawBufferPointer(start: parts[1].iov_base, count: parts[1].iov_len) : nil
        let passthrough = adapter.passthrough
        if adapter.handshake.amend(header: header, body: body, depth: passthrough.depth) { passthrough.negotiated() }
    }
    return writev(device, parts, count)
}
