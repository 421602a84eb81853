import CCrypto
import Glibc

/// Bytes that are wiped when the last reference goes, and that core dumps leave out. They are not swapped where the
/// limit of locked memory allows it. madvise(2), mlock(2).
///
/// `@unchecked Sendable`: written only by `init`, before another thread can have the object, and by owners of a part of
/// it.
package final class SecretBytes: @unchecked Sendable {
    /// To be written to by the owner.
    let memory: UnsafeMutableRawBufferPointer
    private let size: Int

    /// Zeros, in pages of their own.
    package init(count: Int) {
        let page = Int(getpagesize())
        size = (count + page - 1) / page * page
        let pages = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let pages, pages != MAP_FAILED else { fatalError("out of memory") }
        madvise(pages, size, MADV_DONTDUMP)
        mlock(pages, min(size, page))
        memory = UnsafeMutableRawBufferPointer(start: pages, count: count)
    }

    /// A copy. - Parameter bytes: for the caller to wipe.
    package convenience init(_ bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count)
        memory.copyMemory(from: bytes)
    }

    deinit {
        OPENSSL_cleanse(memory.baseAddress, memory.count)
        munmap(memory.baseAddress, size)
    }

    package var count: Int { memory.count }
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
}

/// Overwrites the bytes, also where the compiler sees no use of them any more. OPENSSL_cleanse(3).
package func wipe(_ bytes: inout [UInt8]) { bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) } }

/// This many random bytes of the kernel. getrandom(2)
func randomBytes(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
}
