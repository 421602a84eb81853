import Glibc

/// The part of a message on a Unix socket that carries at most two descriptors (SCM_RIGHTS, unix(7)).
///
/// Put together by hand: the functions of cmsg(3) are macros. On 64 bits a `struct cmsghdr` is its length (8 bytes),
/// level and type (4 each), and is followed by the descriptors (4 each).
enum DescriptorMessage {
    private static let headerLength = 16
    /// MSG_CMSG_CLOEXEC of <bits/socket.h>.
    private static let closeOnExec: Int32 = 0x4000_0000
    private static let rights: Int32 = 1

    /// Sends bytes, and descriptors with the first of them. - Returns: as sendmsg(2).
    static func send(
        _ bytes: ArraySlice<UInt8>, _ descriptors: [Int32], to socket: Int32, flags: Int32 = 0
    ) -> Int {
        var control: (UInt64, Int32, Int32, Int32, Int32) = (
            UInt64(headerLength + 4 * descriptors.count), SOL_SOCKET, rights, descriptors.first ?? -1,
            descriptors.dropFirst().first ?? -1
        )
        // The kernel rounds lengths up to 8 bytes.
        let controlLength = descriptors.isEmpty ? 0 : headerLength + 8
        return bytes.withUnsafeBytes { bytes in
            exchange(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count, &control, controlLength) {
                sendmsg(socket, &$0, Int32(MSG_NOSIGNAL) | flags)
            }
        }
    }

    /// Receives bytes, and the descriptors that came with them; the kernel closes those beyond two.
    /// - Returns: as recvmsg(2).
    static func receive(_ bytes: inout [UInt8], from socket: Int32) -> (count: Int, descriptors: [Int32]) {
        var control: (UInt64, Int32, Int32, Int32, Int32) = (0, 0, 0, -1, -1)
        var controlLength = 0
        let count = bytes.withUnsafeMutableBytes { bytes in
            exchange(bytes.baseAddress, bytes.count, &control, headerLength + 8) { message in
                let count = recvmsg(socket, &message, closeOnExec)
                controlLength = message.msg_controllen
                return count
            }
        }
        guard count >= 0, controlLength > headerLength, control.1 == SOL_SOCKET, control.2 == rights else {
            return (count, [])
        }
        let number = (Int(clamping: control.0) - headerLength) / 4
        return (count, Array([control.3, control.4].prefix(max(0, number))))
    }

    private static func exchange(
        _ bytes: UnsafeMutableRawPointer?, _ count: Int, _ control: inout (UInt64, Int32, Int32, Int32, Int32),
        _ controlLength: Int, _ call: (inout msghdr) -> Int
    ) -> Int {
        var part = iovec(iov_base: bytes, iov_len: count)
        return withUnsafeMutablePointer(to: &part) { part in
            withUnsafeMutableBytes(of: &control) { control in
                var message = msghdr()
                message.msg_iov = part
                message.msg_iovlen = 1
                if controlLength > 0 { message.msg_control = control.baseAddress }
                message.msg_controllen = controlLength
                return call(&message)
            }
        }
    }
}
