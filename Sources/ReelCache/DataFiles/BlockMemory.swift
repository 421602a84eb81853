import Glibc
import ReelCore
import Synchronization

/// Memory for one block, in pages of its own, which core dumps leave out: it may hold what is encrypted on the disk.
/// madvise(2).
///
/// `@unchecked Sendable`: one owner has it at a time.
struct BlockMemory: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    /// Memory that holds anything.
    static func take() -> BlockMemory {
        for place in spares.indices {
            let address = spares[place].exchange(0, ordering: .acquiring)
            if let start = UnsafeMutableRawPointer(bitPattern: address) { return BlockMemory(start) }
        }
        return BlockMemory()
    }

    private init(_ start: UnsafeMutableRawPointer) {
        bytes = UnsafeMutableRawBufferPointer(start: start, count: Int(BlockSize.block))
    }

    private init() {
        let size = Int(BlockSize.block)
        let pages = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let pages, pages != MAP_FAILED else { fatalError("out of memory") }
        madvise(pages, size, MADV_DONTDUMP)
        self.init(pages)
    }

    /// For the next block.
    func giveBack() {
        let address = UInt(bitPattern: bytes.baseAddress)
        for place in spares.indices
        where spares[place].compareExchange(expected: 0, desired: address, ordering: .releasing).exchanged {
            return
        }
        munmap(bytes.baseAddress, bytes.count)
    }
}

/// The addresses of memory for the next blocks, 0 where there is none: new pages cost more than a checksum, and half as
/// much as an encryption. Eight, 1 MiB: more than the threads that read and the transport's usually have at once. No
/// lock, as blocks in memory also go under the lock of a file.
private let spares = InlineArray<8, Atomic<UInt>> { _ in Atomic(0) }

/// Memory for one block that goes with the last reference.
final class BlockBuffer: Sendable {
    private let memory = BlockMemory.take()

    var bytes: UnsafeMutableRawBufferPointer { memory.bytes }

    deinit { memory.giveBack() }
}

/// Calls with memory for a block or a part of one, which holds anything.
func withScratch<Result>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Result) -> Result {
    let memory = BlockMemory.take()
    defer { memory.giveBack() }
    return body(UnsafeMutableRawBufferPointer(rebasing: memory.bytes[..<count]))
}
