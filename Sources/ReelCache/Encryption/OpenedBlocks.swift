import ReelCore
import ReelThreads

/// The blocks of encrypted files that were encrypted or decrypted last: a block that has just come is read next, a read
/// of 4 KiB needs the whole quarter, as GCM opens no part of one, and the next read goes on in it. 8 MiB.
///
/// A block is known by its place and its proof, which no two writes share: what was written again is another block, and
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
        /// The bytes of the block that are here, at their place in the buffer.
        var range = 0..<0
        /// Nobody writes to it as long as it is here, or anybody reads it.
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

        mutating func find(_ name: Name, _ range: Range<Int>) -> BlockBuffer? {
            guard let index = place(of: name), slots[index].range.lowerBound <= range.lowerBound,
                range.upperBound <= slots[index].range.upperBound
            else { return nil }
            uses += 1
            slots[index].lastUse = uses
            return slots[index].buffer
        }

        /// A buffer for what is to be kept: that of the block's other quarters, or the one that was used longest ago;
        /// nil where there is none, or it is still read.
        mutating func take(for name: Name) -> BlockBuffer? {
            let index = place(of: name) ?? oldest
            guard isKnownUniquelyReferenced(&slots[index].buffer) else { return nil }
            defer { slots[index] = Slot() }
            return slots[index].buffer
        }

        /// - Returns: what had to go, to be freed without the lock.
        mutating func insert(_ name: Name, _ range: Range<Int>, _ buffer: BlockBuffer) -> BlockBuffer? {
            let index = place(of: name) ?? oldest
            defer {
                uses += 1
                slots[index] = Slot(name: name, lastUse: uses, range: range, buffer: buffer)
            }
            return slots[index].buffer
        }

        mutating func forget(_ name: Name) {
            if let index = place(of: name) { slots[index] = Slot() }
        }
    }

    private let state = Lock(State())

    /// Keeps a whole block that was encrypted. - Parameter buffer: holds its bytes from the start, and no others any
    /// more, nil if they are copied.
    func keep(_ bytes: UnsafeRawBufferPointer, _ name: Name, _ buffer: BlockBuffer? = nil) {
        if let buffer { return insert(name, 0..<bytes.count, buffer) }
        let copy = takeBuffer(for: name)
        copy.bytes.copyMemory(from: bytes)
        insert(name, 0..<bytes.count, copy)
    }

    /// The next read is of the disk.
    func forget(_ name: Name) { state.withLock { $0.forget(name) } }

    /// Copies bytes of a block. - Parameter range: in the block.
    /// - Returns: false where they are not here.
    func read(_ name: Name, _ range: Range<Int>, into buffer: UnsafeMutableRawBufferPointer) -> Bool {
        guard let found = state.withLock({ $0.find(name, range) }) else { return false }
        found.copy(range, into: buffer)
        return true
    }

    /// Copies bytes of quarters that are not here, and keeps these.
    /// - Parameter open: gets memory for the quarters, and fills it; false where they are damaged.
    /// - Returns: what `open` has returned.
    func read(
        _ name: Name, _ range: Range<Int>, of quarters: Range<Int>, into buffer: UnsafeMutableRawBufferPointer,
        open: (UnsafeMutableRawBufferPointer) -> Bool
    ) -> Bool {
        let opened = takeBuffer(for: name)
        guard open(UnsafeMutableRawBufferPointer(rebasing: opened.bytes[quarters])) else { return false }
        opened.copy(range, into: buffer)
        insert(name, quarters, opened)
        return true
    }

    private func takeBuffer(for name: Name) -> BlockBuffer { state.withLock { $0.take(for: name) } ?? BlockBuffer() }

    private func insert(_ name: Name, _ range: Range<Int>, _ buffer: BlockBuffer) {
        _ = state.withLock { $0.insert(name, range, buffer) }
    }
}

extension BlockBuffer {
    fileprivate func copy(_ range: Range<Int>, into buffer: UnsafeMutableRawBufferPointer) {
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[range]))
    }
}
