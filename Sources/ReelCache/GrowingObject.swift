import Glibc
import ReelCore
import Synchronization

/// A resource whose length nobody knows, streamed from its start into a file without a map. `finish` makes it a
/// complete object; dropped before, its file goes. It makes its own room.
///
/// Where the disk takes no more of it, the rest goes through memory: what lies behind its readers is then forgotten.
package final class GrowingObject: Sendable {
    private struct State {
        var length: Int64 = 0
        /// Whole blocks.
        var reserved: Int64 = 0
        var isFinished = false
        /// From here on nothing is on the disk; nil: everything is.
        var endOnDisk: Int64?
        var memory: [Int: MemoryBlock] = [:]
    }

    /// The checksums of all bytes on the disk, by block.
    private struct Sums {
        private var whole: [UInt64] = []
        /// Of the block that is being written.
        private var running = RunningChecksum()
        /// Where in the file that ends.
        private var end: Int64 = 0

        mutating func add(_ bytes: UnsafeRawBufferPointer) {
            var rest = bytes
            while !rest.isEmpty {
                let count = min(rest.count, Int(BlockSize.block - end % BlockSize.block))
                running.add(UnsafeRawBufferPointer(rebasing: rest[..<count]))
                end += Int64(count)
                if end % BlockSize.block == 0 {
                    whole.append(running.value)
                    running = RunningChecksum()
                }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }

        /// What was written of a block, and its checksum.
        subscript(block: Int) -> (bytes: ByteRange, sum: UInt64)? {
            let bytes = BlockSize.bytes(of: block, length: end)
            return bytes.isEmpty ? nil : (bytes, block < whole.count ? whole[block] : running.value)
        }

        var all: [UInt64] { end % BlockSize.block == 0 ? whole : whole + [running.value] }
    }

    private let key: String
    private let validator: Validator
    private let store: ObjectStore
    private let name: FileName?
    private let descriptor: Descriptor
    private let sums = Mutex(Sums())
    private let state = Mutex(State())

    init(_ key: String, _ validator: Validator, _ store: ObjectStore) {
        self.key = key
        self.validator = validator
        self.store = store
        let name = FileName.random()
        // The sweep of leftovers must not meet it between its making and its mark.
        store.files.grows(name)
        do throws(CacheError) {
            guard store.disk.mayWriteData else { throw store.disk.failure ?? .full }
            descriptor = try store.files.create(name, length: 0)
            self.name = name
        } catch {
            store.disk.failed(error)
            store.files.grew(name)
            descriptor = .none
            self.name = nil
            state.withLock { $0.endOnDisk = 0 }
        }
    }

    deinit {
        let state = state.withLock { $0 }
        if let name { store.files.grew(name) }
        guard !state.isFinished else { return }
        store.files.remove(name)
        store.quota.release(state.reserved)
    }

    /// Bytes so far.
    package var length: Int64 { state.withLock { $0.length } }

    /// True where the rest goes through memory.
    package var isInMemory: Bool { state.withLock { $0.endOnDisk != nil } }

    /// Adds `bytes` at the end, one caller at a time. `.full` where neither disk nor memory has room; what was added
    /// stays readable.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(CacheError) {
        let length = state.withLock { $0.length }
        if try !appendToDisk(bytes, at: length) { try appendToMemory(bytes, at: length) }
        state.withLock { $0.length = length + Int64(bytes.count) }
    }

    private func appendToDisk(_ bytes: UnsafeRawBufferPointer, at length: Int64) throws(CacheError) -> Bool {
        let (reserved, isOver) = state.withLock { ($0.reserved, $0.endOnDisk != nil) }
        guard !isOver else { return false }
        let end = length + Int64(bytes.count)
        let missing = max(0, (end + BlockSize.block - 1) / BlockSize.block * BlockSize.block - reserved)
        do throws(CacheError) {
            guard missing == 0 || store.evictor.reserve(missing) else { throw .full }
            state.withLock { $0.reserved += missing }
            try descriptor.write(bytes, at: length)
        } catch {
            if error != .full { store.disk.failed(error) }
            state.withLock { $0.endOnDisk = length }
            return false
        }
        sums.withLock { $0.add(bytes) }
        return true
    }

    private func appendToMemory(_ bytes: UnsafeRawBufferPointer, at length: Int64) throws(CacheError) {
        var rest = bytes
        var offset = length
        while !rest.isEmpty {
            let index = Int(offset / BlockSize.block)
            let lower = Int(offset % BlockSize.block)
            let count = min(rest.count, Int(BlockSize.block) - lower)
            let block: MemoryBlock
            if let living = state.withLock({ $0.memory[index] }) {
                block = living
            } else {
                block = try store.evictor.memoryBlock(BlockSize.block)
                state.withLock { $0.memory[index] = block }
            }
            block.write(UnsafeRawBufferPointer(rebasing: rest[..<count]), at: lower)
            offset += Int64(count)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Nobody reads before `offset` any more: memory that lies there goes. What is on the disk stays.
    package func forget(before offset: Int64) {
        state.withLock { state in
            guard state.endOnDisk != nil else { return }
            for block in state.memory.keys where Int64(block + 1) * BlockSize.block <= offset {
                state.memory[block] = nil
            }
        }
    }

    /// Bytes read, fewer than asked for only at the end so far; -1 where they are not there any more.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        let (end, length) = state.withLock { ($0.endOnDisk ?? .max, $0.length) }
        let upper = min(offset + Int64(buffer.count), length)
        guard offset < upper else { return 0 }
        let onDisk = ByteRange(offset, max(offset, min(upper, end)))
        // No sync tells of a write-back that failed while the body still comes, and the page cache may have lost bytes then.
        for block in BlockSize.blocks(touching: onDisk, length: length) {
            guard let (written, sum) = sums.withLock({ $0[block] }), descriptor.read(written, sum, into: buffer, onDisk)
            else { return -1 }
        }
        var place = max(offset, end)
        while place < upper {
            let lower = Int(place % BlockSize.block)
            let count = min(Int(upper - place), Int(BlockSize.block) - lower)
            guard let block = state.withLock({ $0.memory[Int(place / BlockSize.block)] }) else { return -1 }
            let start = Int(place - offset)
            block.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[start..<start + count]), at: lower)
            place += Int64(count)
        }
        return Int(upper - offset)
    }

    /// The end was reached: the complete object, committed like any other; nil where the disk has not all of it. Another
    /// version of the same key and length makes way. Once only, after the last `append`.
    package func finish() throws(CacheError) -> CacheObject? {
        let (length, reserved, isOnDisk) = state.withLock { ($0.length, $0.reserved, $0.endOnDisk == nil) }
        guard isOnDisk, let name else { return nil }
        let sums = sums.withLock { $0.all }
        let copy = try Descriptor(fcntl(descriptor.number, F_DUPFD_CLOEXEC, 0), from: "fcntl")
        let object = try store.adopt(Version(key: key, validator: validator, length: length), name, copy, sums)
        state.withLock { $0.isFinished = true }
        store.quota.release(reserved - length)
        return object
    }
}
