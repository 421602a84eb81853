import Glibc
import ReelCore
import Synchronization

/// The journal of blocks filled since the last commit, with their checksums. With it a killed daemon forgets next to
/// nothing.
///
/// It is written without a sync, so a power loss may leave anything in it. That costs nothing: an entry counts only
/// where the data file has bytes of that checksum. Two files take turns: a commit freezes one, and empties it at its
/// end.
final class FillJournal: Sendable {
    struct Entry: Hashable {
        /// `objects.id`.
        var object: Int64
        var block: Int
        var sum: BlockSum
    }

    /// Words of the proof in an entry: an XXH3, or nonce and tags.
    private let sumWords: Int
    /// Object, block, proof, and the checksum of these three; words of eight bytes, in the machine's order.
    private var entryWords: Int { sumWords + 3 }

    /// One of the two files. Each entry has a place of its own: one that the disk took in part spoils no other, and no
    /// lock is held over pwrite(2).
    private struct File: ~Copyable, Sendable {
        let descriptor: Descriptor
        /// The place of the next entry, in entries.
        private let next = Atomic(0)

        init(_ path: String) throws(CacheError) { descriptor = try Descriptor(path, O_RDWR | O_CREAT) }

        func add(_ entry: UnsafeRawBufferPointer) {
            let place = next.add(1, ordering: .relaxed).oldValue
            _ = pwrite(descriptor.number, entry.baseAddress, entry.count, place * entry.count)
        }

        func clear() {
            ftruncate(descriptor.number, 0)
            next.store(0, ordering: .relaxed)
        }
    }

    private let even: File
    private let odd: File
    private let isOdd = Atomic(false)

    /// - Parameters:
    ///   - directory: of the source.
    ///   - isSealed: in an encrypted cache.
    init(_ directory: String, isSealed: Bool = false) throws(CacheError) {
        sumWords = isSealed ? BlockSum(plain: 0).words.scalarCount : 1
        even = try File(directory + "/fills-0.log")
        odd = try File(directory + "/fills-1.log")
    }

    /// Notes a filled block. If the disk does not take the entry, a crash forgets the block.
    func note(_ entry: Entry) {
        let words =
            [UInt64(bitPattern: entry.object), UInt64(entry.block)] + (0..<sumWords).map { entry.sum.words[$0] }
        let check = words.withUnsafeBytes { checksum($0) }
        // One that comes into a file just emptied is right all the same, and stays until that is emptied again.
        (words + [check]).withUnsafeBytes { isOdd.load(ordering: .relaxed) ? odd.add($0) : even.add($0) }
    }

    /// A commit begins: entries noted from here on belong to the next one.
    func turn() { isOdd.logicalXor(true, ordering: .relaxed) }

    /// Empties the frozen file: its entries are committed.
    func settle() { isOdd.load(ordering: .relaxed) ? even.clear() : odd.clear() }

    /// Empties both files: all entries are taken over, or are of no use.
    func clear() {
        even.clear()
        odd.clear()
    }

    /// The entries of a daemon that ended without a commit. Reads no more than a few commits' worth, because the file
    /// is not trusted.
    var entries: Set<Entry> {
        var found: Set<Entry> = []
        let limit = 1 << 20
        var bytes = [UInt64](repeating: 0, count: limit / 8)
        for number in [even.descriptor.number, odd.descriptor.number] {
            let count = bytes.withUnsafeMutableBytes { pread(number, $0.baseAddress, limit, 0) }
            for index in stride(from: 0, to: max(0, count) / 8 / entryWords * entryWords, by: entryWords) {
                let words = Array(bytes[index..<index + entryWords - 1])
                guard words.withUnsafeBytes({ checksum($0) }) == bytes[index + entryWords - 1], words[1] < 1 << 40
                else {
                    continue
                }
                var sum = BlockSum(plain: 0)
                for word in 0..<sumWords { sum.words[word] = words[2 + word] }
                found.insert(Entry(object: Int64(bitPattern: words[0]), block: Int(words[1]), sum: sum))
            }
        }
        return found
    }
}

extension IndexConnection {
    /// Takes over blocks that were noted and not committed, as far as the data files have them: data first, then rows.
    func recover(_ journal: FillJournal, _ directory: CacheDirectory) throws(CacheError) {
        for (id, entries) in Dictionary(grouping: journal.entries, by: \.object) {
            guard let row = try row(id), !row.isSuperseded, (0...BlockSize.longestFile).contains(row.version.length),
                let descriptor = try directory.open(row)
            else { continue }
            let file = DataFile(row, descriptor, try blocks(of: row), cipher)
            for entry in entries
            where entry.block < file.blockCount && file.proves(entry.block, entry.sum) {
                // The last write counts, even if a row has an older checksum.
                file.withBlocks { blocks in
                    _ = blocks.lose(entry.block..<entry.block + 1)
                    _ = blocks.fill(entry.block, entry.sum, now: row.lastUse)
                }
            }
            guard file.withBlocks({ $0.beginSync() }), (try? file.descriptor.synchronise()) != nil else { continue }
            // The kernel reports a failed sync once, perhaps to the daemon that died. So only bytes count that come
            // from the disk, not from the page cache.
            file.descriptor.dropPages(ByteRange(0, row.version.length))
            for entry in entries where file.withBlocks({ $0.sum(of: entry.block) }) == entry.sum {
                guard !file.proves(entry.block, entry.sum) else { continue }
                _ = file.withBlocks { $0.lose(entry.block..<entry.block + 1) }
            }
            try transaction { () throws(CacheError) in try write(file) }
        }
        journal.clear()
    }
}
