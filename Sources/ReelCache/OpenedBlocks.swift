import ReelCore
import ReelThreads

/// The blocks of encrypted files that were encrypted or decrypted last: a block that has just come is read next, a read
/// of 4 KiB needs its whole block, as GCM opens no part of one, and the next read goes on in the same block. 8 MiB.
///
/// A block is known by its place and its proof, which no two writes share: what was written anew is another block, and
/// a proof that somebody moved in the index finds nothing here.
final class OpenedBlocks: Sendable {
    static let count = 64

    /// Which block, and which of its writes.
    struct Name: Equatable {
        /// `DataFile.row`.
        var row: Int64
        var block: Int
        var sum: BlockSum

        static let none = Name(row: .min, block: 0, sum: BlockSum(plain: 0))
    }

    private struct Slot {
        var name = Name.none
        var lastUse: UInt64 = 0
        /// The whole block. Nobody writes to it as long as it is here, or anybody reads it.
        var buffer: BlockBuffer?
    }

    private struct State {
        var slots = [Slot](repeating: Slot(), count: OpenedBlocks.count)
        var uses: UInt64 = 0

        /// A loop, as it is short, and closures of the standard library's allocate unless they are optimised.
        private func place(of name: Name) -> Int? {
            for index in slots.indices where slots[index].name == name { return index }
            return nil
        }

        private var oldest: Int {
            var oldest = 0
            for index in slots.indices where slots[index].lastUse < slots[oldest].lastUse { oldest = index }
            return oldest
        }

        mutating func find(_ name: Name) -> BlockBuffer? {
            guard let index = place(of: name) else { return nil }
            uses += 1
            slots[index].lastUse = uses
            return slots[index].buffer
        }

        /// The buffer that was used longest ago, for the next block; nil where there is none, or it is still read.
        mutating func takeOldest() -> BlockBuffer? {
            let index = oldest
            guard isKnownUniquelyReferenced(&slots[index].buffer) else { return nil }
            defer { slots[index] = Slot() }
            return slots[index].buffer
        }

        /// - Returns: what had to go, to be freed without the lock.
        mutating func insert(_ name: Name, _ buffer: BlockBuffer) -> BlockBuffer? {
            let index = place(of: name) ?? oldest
            defer {
                uses += 1
                slots[index] = Slot(name: name, lastUse: uses, buffer: buffer)
            }
            return slots[index].buffer
        }

        mutating func forget(_ name: Name) {
            if let index = place(of: name) { slots[index] = Slot() }
        }
    }

    private let state = Lock(State())

    /// Keeps a whole block that was encrypted. - Parameter buffer: holds its bytes from the start, and no others any
    /// more; nil: they are copied.
    func keep(_ bytes: UnsafeRawBufferPointer, _ name: Name, _ buffer: BlockBuffer? = nil) {
        if let buffer { return insert(name, buffer) }
        let copy = takeBuffer()
        copy.bytes.copyMemory(from: bytes)
        insert(name, copy)
    }

    /// The next read is of the disk.
    func forget(_ name: Name) { state.withLock { $0.forget(name) } }

    /// Copies a whole block. - Returns: false where it is not here.
    func read(_ name: Name, into buffer: UnsafeMutableRawBufferPointer) -> Bool {
        guard let found = state.withLock({ $0.find(name) }) else { return false }
        found.copy(0, into: buffer)
        return true
    }

    /// Copies bytes of a block.
    /// - Parameters:
    ///   - count: bytes of the whole block.
    ///   - offset: in the block.
    ///   - open: gets memory for the whole block, and fills it; false where the block is damaged.
    /// - Returns: what `open` has returned; true where the block was here.
    func read(
        _ name: Name, _ count: Int, into buffer: UnsafeMutableRawBufferPointer, at offset: Int,
        open: (UnsafeMutableRawBufferPointer) -> Bool
    ) -> Bool {
        if let found = state.withLock({ $0.find(name) }) {
            found.copy(offset, into: buffer)
            return true
        }
        let opened = takeBuffer()
        guard open(UnsafeMutableRawBufferPointer(rebasing: opened.bytes[..<count])) else { return false }
        opened.copy(offset, into: buffer)
        insert(name, opened)
        return true
    }

    private func takeBuffer() -> BlockBuffer { state.withLock { $0.takeOldest() } ?? BlockBuffer() }

    private func insert(_ name: Name, _ buffer: BlockBuffer) {
        _ = state.withLock { $0.insert(name, buffer) }
    }
}

extension BlockBuffer {
    /// - Parameter offset: of the first byte.
    fileprivate func copy(_ offset: Int, into buffer: UnsafeMutableRawBufferPointer) {
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + buffer.count]))
    }
}
