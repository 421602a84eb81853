import Glibc
import ReelCore
import Synchronization

/// Opens the objects of one cache. Each version has one living instance, which fills and reads its data file.
final class ObjectStore: Sendable {
    /// The state of a version that the index knows.
    enum Known {
        case object(CacheObject)
        /// Its file cannot be used; these blocks were filled.
        case lost([Int])
    }

    let index: CacheIndex
    let files: DataFiles
    let evictor: Evictor
    let committer: Committer
    let clock: UseClock
    /// nil in a plain cache.
    let opened: OpenedBlocks?
    private let verified: VerificationCache
    private let damage = Atomic<Int64>(0)

    var quota: CacheQuota { evictor.quota }
    var disk: DiskWatch { evictor.disk }
    private var reached: @Sendable (CrashPoint) -> Void { evictor.reached }

    init(_ evictor: Evictor, _ committer: Committer, _ verified: VerificationCache) {
        index = evictor.index
        files = evictor.files
        clock = evictor.clock
        self.evictor = evictor
        self.committer = committer
        self.verified = verified
        opened = index.cipher == nil ? nil : OpenedBlocks()
    }

    /// The number of blocks found damaged since the program started.
    var damagedBlocks: Int64 { damage.load(ordering: .relaxed) }

    func found(damaged count: Int) { damage.add(Int64(count), ordering: .relaxed) }

    /// The proof that a block of this file must have; nil if the index has none.
    func sum(of block: Int, in file: DataFile) -> BlockSum? {
        let (known, removals) = file.withBlocks { ($0.sum(of: block), $0.removals) }
        if let known { return known }
        let extent = block / BlockSize.blocksPerExtent
        let sums = try? index.read { (index) throws(CacheError) in try index.sums(of: file.row, extent: extent) }
        // Another thread may have removed the block meanwhile, and its proof may be another one by now.
        if let sums, file.cipher != nil {
            file.withBlocks { if $0.removals == removals { $0.keep(sums, ofExtent: extent) } }
        }
        return sums?[block % BlockSize.blocksPerExtent]
    }

    // MARK: Opening

    func object(for version: Version) throws(CacheError) -> CacheObject {
        let isPossible = (0...BlockSize.longestFile).contains(version.length) || version.isOpenEnded
        guard isPossible else { throw .badLength }
        do throws(CacheError) {
            return try objectOnDisk(version)
        } catch {
            if error == .closed { throw error }
            disk.failed(error)
            return objectInMemory(version)
        }
    }

    /// The object of a version that the index knows; nil where it knows none.
    func known(_ version: Version) throws(CacheError) -> Known? {
        try index.write { (index) throws(CacheError) -> Known? in
            guard let row = try index.row(of: version), !row.isSuperseded else { return nil }
            let blocks = files.file(row.id) == nil ? try index.blocks(of: row).states.durable : RangeSet()
            if let file = try openFile(row, index) { return .object(files.object(file, self)) }
            return .lost(Array(blocks.ranges.joined()))
        }
    }

    private func objectOnDisk(_ version: Version) throws(CacheError) -> CacheObject {
        let now = clock.now()
        return try index.write { (index) throws(CacheError) -> CacheObject in
            if !version.isOpenEnded, let row = try index.row(of: version) {
                if row.isSuperseded {
                    try index.run("UPDATE objects SET superseded = 0 WHERE id = ?", [.integer(row.id)])
                    files.supersede(row.id, false)
                }
                if let file = try openFile(row, index) {
                    // As the row has it, so that an open file is the same one after a restart.
                    if let known = try? index.know(version.validator, of: row) { file.rename(known) }
                    file.use(now)
                    return files.object(file, self)
                }
            }
            guard disk.mayWriteIndex, disk.mayWriteData else { throw disk.failure ?? .full }
            return files.object(try create(version, index, now), self)
        }
    }

    private func objectInMemory(_ version: Version) -> CacheObject {
        if !version.isOpenEnded, let file = files.all.first(where: { $0.row < 0 && $0.version == version }) {
            return files.object(file, self)
        }
        let file = DataFile(
            row: files.rowInMemory(), version: version, name: nil, descriptor: .none,
            blocks: BlockTable(length: version.length), lastUse: clock.now())
        return files.object(file, self)
    }

    private func openFile(_ row: ObjectRow, _ index: IndexConnection) throws(CacheError) -> DataFile? {
        if let file = files.file(row.id) { return file }
        guard let descriptor = try files.open(row) else {
            found(damaged: 1)
            try remove(row, index)
            return nil
        }
        var blocks = try index.blocks(of: row)
        if let verified = verified.take(row.id, descriptor) { blocks.states.trust(verified) }
        let filled = blocks.states.filledBytes
        if !blocks.isComplete || filled != row.cached {
            // A disk that takes no writes does not take this one either, and needs no tidying then.
            try? index.setUnclean(row.id, cached: filled)
        }
        // The quota counted the row's number; the blocks are the truth.
        if filled > row.cached { quota.add(filled - row.cached) }
        if filled < row.cached { quota.release(row.cached - filled) }
        return DataFile(row, descriptor, blocks, index.cipher, wasLent: files.wasLent(row.id))
    }

    private func create(_ version: Version, _ index: IndexConnection, _ now: Int64) throws(CacheError) -> DataFile {
        let name = FileName.random()
        let descriptor = try files.create(name, length: version.isOpenEnded ? 0 : version.length)
        reached(.fileMade)
        do throws(CacheError) {
            // No sync: a row lost with the power leaves a stray file, which the next start removes.
            let row = try index.unsynced { () throws(CacheError) in
                try index.insert(version, name, lastUse: now)
            }
            reached(.rowInserted)
            return DataFile(
                row: row, version: version, name: name, descriptor: descriptor,
                blocks: BlockTable(length: version.length, keepsSums: index.cipher != nil), lastUse: now,
                cipher: index.cipher?.blockCipher(name, of: version.key))
        } catch {
            files.remove(name)
            throw error
        }
    }

    /// Does the work of `CacheObject.record`. Until then the row has a length that no file has, so that a crash leaves
    /// nothing.
    func record(_ length: Int64, of file: DataFile) -> Bool {
        guard file.hasFile else { return false }
        do throws(CacheError) {
            guard file.withBlocks({ $0.isOnDisk(upTo: length) }) else { throw .full }
            try file.change { () throws(CacheError) in try file.descriptor.setLength(length) }
            var version = file.version
            version.length = length
            try index.write { (index) throws(CacheError) in
                if let old = try index.row(of: version), !old.isSuperseded { try remove(old, index) }
                try index.set(version, file.name, of: file.row)
            }
            return true
        } catch {
            if error != .full { disk.failed(error) }
            files.supersede(file.row, true)
            return false
        }
    }

    /// Gives a version another validator, also while its file is open. - Returns: false if the index has no such
    /// version, or if one with that validator is open.
    func rename(_ version: Version, _ validator: Validator) -> Bool {
        let isDone = try? index.write { (index) throws(CacheError) -> Bool in
            guard let row = try index.row(of: version), !row.isSuperseded else { return false }
            var wanted = version
            wanted.validator = validator
            if let other = try index.row(of: wanted) {
                guard files.file(other.id) == nil else { return false }
                try remove(other, index)
            }
            try index.set(validator, of: row)
            files.file(row.id)?.rename(validator)
            return true
        }
        return isDone ?? false
    }

    /// Makes the version of an object a longer one, while its file is open. A last block that is not whole leaves: its
    /// checksum is that of fewer bytes. On the thread that writes. If the program ends between the change of the file
    /// and that of its row, the next open cuts the file to the row's length.
    /// - Returns: `later` where its last block is being punched out; `never` where it has an open end, the kernel reads
    ///   the file itself, bytes of it are or were lent, the disk refuses, or another one with that length and validator
    ///   is open, or has more bytes.
    func lengthen(_ file: DataFile, to length: Int64, _ validator: Validator) -> Store.Lengthening {
        let (known, last) = (file.length, file.blockCount - 1)
        guard !file.isOpenEnded, known < length, length <= BlockSize.longestFile, !file.isReadDirectly else {
            return .never
        }
        do throws(CacheError) {
            if known % BlockSize.block != 0 { try evictor.discard(last..<last + 1, of: file) }
            guard file.hasFile else { return file.lengthen(to: length, validator) ? .done : .later }
            return try index.write { (index) throws(CacheError) -> Store.Lengthening in
                // Looked at before anything changes. A block departs only under this lock, and others fill none.
                guard file.endsWhole else { return .later }
                var wanted = file.version
                (wanted.length, wanted.validator) = (length, validator)
                if let other = try index.row(of: wanted) {
                    guard files.file(other.id) == nil, other.cached <= file.bytesOnDisk else { return .never }
                    try remove(other, index)
                }
                try file.change { () throws(CacheError) in try file.descriptor.setLength(length) }
                do throws(CacheError) {
                    try index.transaction { () throws(CacheError) in
                        try index.set(wanted, file.name, of: file.row)
                        // It may have been complete, and clean: no row covers what comes until the next commit.
                        try index.setUnclean(file.row, cached: file.withBlocks { $0.states.durableBytes })
                    }
                } catch {
                    try file.change { () throws(CacheError) in try file.descriptor.setLength(known) }
                    throw error
                }
                return file.lengthen(to: length, validator) ? .done : .later
            }
        } catch {
            if error != .busy { disk.failed(error) }
            // A file that was lent stays so, and a disk may be ill for long: the longer version gets an object of its
            // own, whose bytes find room.
            return .never
        }
    }

    // MARK: Forgetting

    func forget(_ version: Version) {
        try? index.write { (index) throws(CacheError) in
            if let row = try index.row(of: version), !row.isSuperseded { try remove(row, index) }
        }
    }

    func forget(_ object: CacheObject) {
        try? index.write { (index) throws(CacheError) in
            if let row = try index.row(object.file.row), !row.isSuperseded { try remove(row, index) }
        }
    }

    /// Takes an object out of index, directory and quota; rows first. An object with a holder goes with its last one.
    private func remove(_ row: ObjectRow, _ index: IndexConnection) throws(CacheError) {
        if files.isHeld(row.id) {
            try index.run("UPDATE objects SET superseded = 1 WHERE id = ?", [.integer(row.id)])
            files.supersede(row.id, true)
            return
        }
        try index.transaction { () throws(CacheError) in try index.delete(row.id) }
        let bytes = files.drop(row.id)?.bytesOnDisk ?? row.cached
        files.remove(row.name)
        quota.release(bytes)
    }
}
