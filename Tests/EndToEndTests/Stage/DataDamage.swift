import CLinux
import Glibc
import TestKit

/// What happens to a data file behind the program's back.
enum DataDamage: CaseIterable {
    case emptied, shortened, shortenedAndGrown, punched, flipped, overwritten, replaced, deleted
    case directoryInPlace, pipeInPlace, linkInPlace

    /// Whether a check of length and holes cannot see it, only one of the bytes.
    var isSilent: Bool { self == .flipped || self == .overwritten }

    /// Whether the file is what it was, with other bytes.
    var isOfBytes: Bool { isSilent || self == .punched || self == .replaced }

    /// - Parameter stranger: a file that is not the cache's, of the same length.
    func apply(to file: String, stranger: String, _ random: inout SeededGenerator) throws {
        let length = Int64(try attributes(file).st_size)
        let place = Int64.random(in: length / 4..<length / 2, using: &random)
        switch self {
        case .emptied: truncate(file, 0)
        case .shortened: truncate(file, off_t(place))
        case .shortenedAndGrown:
            truncate(file, off_t(place))
            truncate(file, off_t(length))
        case .punched:
            // Whole pages: the rest of one would be zeroed in place.
            try change(file) { reel_punch_hole($0, Int(place & ~4095), 1 << 20) == 0 }
        case .flipped:
            try change(file) { file in
                var byte: UInt8 = 0
                guard pread(file, &byte, 1, off_t(place)) == 1 else { return false }
                byte ^= 1 << UInt8.random(in: 0..<8, using: &random)
                return pwrite(file, &byte, 1, off_t(place)) == 1
            }
        case .overwritten:
            let noise = GeneratedBytes(seed: random.next()).bytes(.init(0, 300_000))
            try change(file) { pwrite($0, noise, noise.count, off_t(place)) == noise.count }
        case .replaced:
            let noise = GeneratedBytes(seed: random.next()).bytes(.init(0, length))
            try writeFile(file + ".new", noise)
            rename(file + ".new", file)
        case .deleted: unlink(file)
        case .directoryInPlace:
            unlink(file)
            mkdir(file, 0o700)
        case .pipeInPlace:
            unlink(file)
            mkfifo(file, 0o600)
        case .linkInPlace:
            unlink(file)
            symlink(stranger, file)
        }
    }

    private func change(_ file: String, _ body: (Int32) -> Bool) throws {
        let descriptor = open(file, O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        guard descriptor >= 0, body(descriptor) else { throw SystemFailure("\(self)") }
    }
}

/// What happens to the index behind the program's back, between two mounts.
enum IndexDamage: CaseIterable {
    case deleted, emptied, shortened, noise, noiseInTheMiddle, flippedBits, otherDatabase
    case directoryInPlace, pipeInPlace, linkInPlace
    /// These want an index that was not closed in good order, with its log.
    case logDeleted, logNoise, logShortened

    /// Not there, too short, not a database, a wrong one, of another kind, and the log.
    static let oneOfEachKind: [IndexDamage] = [
        .deleted, .shortened, .noise, .flippedBits, .otherDatabase, .pipeInPlace, .logDeleted, .logNoise,
    ]

    var needsCrash: Bool { [.logDeleted, .logNoise, .logShortened].contains(self) }

    func apply(to index: String, stranger: String, _ random: inout SeededGenerator) throws {
        let length = Int64(try attributes(index).st_size)
        switch self {
        case .deleted: unlink(index)
        case .emptied: truncate(index, 0)
        case .shortened: truncate(index, off_t(length / 2))
        case .noise: try scribble(index, 0, length, &random)
        case .noiseInTheMiddle: try scribble(index, length / 3, 4096 * 2, &random)
        case .flippedBits:
            for _ in 0..<20 { try scribble(index, Int64.random(in: 100..<length, using: &random), 1, &random) }
        case .otherDatabase:
            unlink(index)
            _ = try ChildProcess.run(["sqlite3", index, "CREATE TABLE mine(a); INSERT INTO mine VALUES (1)"])
        case .directoryInPlace:
            unlink(index)
            mkdir(index, 0o700)
        case .pipeInPlace:
            unlink(index)
            mkfifo(index, 0o600)
        case .linkInPlace:
            unlink(index)
            symlink(stranger, index)
        case .logDeleted: unlink(index + "-wal")
        case .logNoise: try scribble(index + "-wal", 0, Int64(attributes(index + "-wal").st_size), &random)
        case .logShortened: truncate(index + "-wal", off_t(try attributes(index + "-wal").st_size * 2 / 3))
        }
    }
}

/// Writes noise over a part of a file.
func scribble(_ path: String, _ offset: Int64, _ count: Int64, _ random: inout SeededGenerator) throws {
    let noise = GeneratedBytes(seed: random.next()).bytes(.init(0, count))
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    defer { close(descriptor) }
    guard pwrite(descriptor, noise, noise.count, off_t(offset)) == noise.count else { throw SystemFailure("pwrite") }
}
