import Glibc
import ReelCore
import Synchronization

/// A resource whose length nobody knows, streamed from its start into a file without a map. `finish` makes it a
/// complete object; dropped before, its file goes. It makes its own room.
package final class GrowingObject: Sendable {
    private struct State {
        var length: Int64 = 0
        /// Whole blocks.
        var reserved: Int64 = 0
        var isFinished = false
    }

    private let key: String
    private let validator: Validator
    private let store: Store
    private let name: FileName
    private let descriptor: Descriptor
    private let state = Mutex(State())

    init(_ key: String, _ validator: Validator, _ store: Store) throws(CacheError) {
        self.key = key
        self.validator = validator
        self.store = store
        let name = FileName.random()
        self.name = name
        // The sweep of leftovers must not meet it between its making and its mark.
        store.files.grows(name)
        descriptor = try name.create(in: store.directory.objects, length: 0)
    }

    deinit {
        store.files.grew(name)
        let state = state.withLock { $0 }
        guard !state.isFinished else { return }
        name.remove(in: store.directory.objects)
        store.release(state.reserved)
    }

    /// Bytes so far; all of them can be read.
    package var length: Int64 { state.withLock { $0.length } }

    /// Adds `bytes` at the end, one caller at a time. `.full` where no room can be made; what was added stays readable.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(CacheError) {
        let (length, reserved) = state.withLock { ($0.length, $0.reserved) }
        let end = length + Int64(bytes.count)
        let missing = max(0, (end + BlockSize.block - 1) / BlockSize.block * BlockSize.block - reserved)
        guard missing == 0 || store.makeRoom(for: missing) else { throw .full }
        state.withLock { $0.reserved += missing }
        try descriptor.write(bytes, at: length)
        state.withLock { $0.length = end }
    }

    /// As `CacheObject.read`.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        descriptor.read(into: buffer, at: offset)
    }

    /// The end was reached: the complete object, committed like any other. Another version of the same key and length
    /// makes way. Once only, after the last `append`.
    package func finish() throws(CacheError) -> CacheObject {
        let (length, reserved) = state.withLock { ($0.length, $0.reserved) }
        let copy = try Descriptor(fcntl(descriptor.number, F_DUPFD_CLOEXEC, 0), from: "fcntl")
        let object = try store.adopt(Version(key: key, validator: validator, length: length), name, copy)
        state.withLock { $0.isFinished = true }
        store.release(reserved - length)
        return object
    }
}

extension Store {
    /// A file for a resource that does not tell its length.
    package func growingObject(key: String, validator: Validator) throws(CacheError) -> GrowingObject {
        try GrowingObject(key, validator, self)
    }
}
