import CDisk
import Glibc
import ReelCore
import ReelThreads
import TestKit

@testable import ReelCache

/// The disk below the cache: what is wrong with it, and what a process or a machine that dies leaves on it.
enum Disk {
    /// Where there is one, a seed is in a process of its own, so this is of that seed alone.
    static func watch(_ directory: String) {
        var status = stat()
        if stat(directory, &status) == 0 { reel_disk_watch(status.st_dev) }
    }

    static func becomesWell() { reel_disk_trouble(REEL_DISK_WELL) }

    static func hasTrouble(_ random: inout SeededGenerator) {
        let troubles = [
            (REEL_DISK_WELL, "well"), (REEL_DISK_FULL, "full"), (REEL_DISK_FAILS, "failing"),
            (REEL_DISK_FORGETS, "failing to keep"), (REEL_DISK_READ_ONLY, "read-only"),
        ]
        let (trouble, name) = troubles.randomElement(using: &random)!
        Simulation.tell("the disk is \(name)")
        reel_disk_trouble(trouble)
    }

    /// A copy of a tree as it is at this moment.
    /// - Parameter lost: nil: with all that was written, which is what a process leaves that dies. Else what a machine
    ///   leaves: some of what was not made durable is lost.
    static func copy(_ place: String, to copy: String, lost: UInt64?) {
        reel_disk_pass(true)
        defer { reel_disk_pass(false) }
        copyTree(place, to: copy, lost)
    }

    /// Changes some bytes of data files while no process has them open.
    static func damage(_ cache: String, _ random: inout SeededGenerator) {
        reel_disk_pass(true)
        defer { reel_disk_pass(false) }
        for path in files(below: cache).sorted() where path.contains("/objects/") && Bool.random(using: &random) {
            let file = open(path, O_RDWR)
            defer { close(file) }
            var status = stat()
            guard fstat(file, &status) == 0, status.st_size > 0 else { continue }
            let place = Int.random(in: 0..<status.st_size, using: &random)
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                Simulation.tell("damage: a byte at \(place)")
                var byte: UInt8 = 0
                pread(file, &byte, 1, place)
                byte ^= 1 << UInt8.random(in: 0..<8, using: &random)
                pwrite(file, &byte, 1, place)
            case 1:
                Simulation.tell("damage: cut at \(place)")
                ftruncate(file, place)
            default:
                Simulation.tell("damage: gone")
                unlink(path)
            }
        }
    }

    /// Bytes that the files of a tree take.
    static func used(_ tree: String) -> Int64 {
        files(below: tree).reduce(0) { sum, path in
            var status = stat()
            return lstat(path, &status) == 0 ? sum + Int64(status.st_blocks) * 512 : sum
        }
    }

    /// The names of the files that hold a text, besides those that hold the bytes of files.
    static func files(with text: String, in tree: String) -> [String] {
        files(below: tree).filter { path in
            guard !path.contains("/objects/"), let file = fopen(path, "r") else { return false }
            defer { fclose(file) }
            var (bytes, left) = ([UInt8](repeating: 0, count: 1 << 20), 0)
            while case let count = fread(&bytes[left], 1, bytes.count - left, file), count > 0 {
                if bytes[..<(left + count)].withUnsafeBytes({ $0.holds(Array(text.utf8)) }) { return true }
                // It may lie on both sides of an end.
                let kept = min(left + count, text.utf8.count - 1)
                bytes.replaceSubrange(0..<kept, with: Array(bytes[(left + count - kept)..<(left + count)]))
                left = kept
            }
            return false
        }
    }

    private static func files(below place: String) -> [String] {
        (names(in: place) ?? []).flatMap { name -> [String] in
            var status = stat()
            guard lstat("\(place)/\(name)", &status) == 0 else { return [] }
            return status.st_mode & S_IFMT == S_IFDIR ? files(below: "\(place)/\(name)") : ["\(place)/\(name)"]
        }
    }

    private static func copyTree(_ place: String, to copy: String, _ lost: UInt64?) {
        mkdir(copy, 0o700)
        for name in (names(in: place) ?? []).sorted() {
            var status = stat()
            guard lstat("\(place)/\(name)", &status) == 0 else { continue }
            if status.st_mode & S_IFMT == S_IFDIR {
                copyTree("\(place)/\(name)", to: "\(copy)/\(name)", lost)
            } else if status.st_mode & S_IFMT == S_IFREG, lost == nil || !name.hasSuffix("-shm") {
                copyFile("\(place)/\(name)", to: "\(copy)/\(name)", status, lost)
            }
        }
    }

    /// Holes stay holes.
    private static func copyFile(_ place: String, to copy: String, _ status: stat, _ lost: UInt64?) {
        let (input, output) = (open(place, O_RDONLY), open(copy, O_RDWR | O_CREAT, status.st_mode & 0o777))
        defer {
            close(input)
            close(output)
        }
        let zeros = [UInt8](repeating: 0, count: 4096)
        var bytes = zeros
        var offset = 0
        while case let count = pread(input, &bytes, bytes.count, offset), count > 0 {
            if memcmp(bytes, zeros, count) != 0 { pwrite(output, bytes, count, offset) }
            offset += count
        }
        ftruncate(output, offset)
        // By the name, as the numbers of inodes differ from run to run.
        let number = copy.split(separator: "/").last!.utf8.reduce(lost ?? 0) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        if lost != nil { reel_disk_lose(status.st_ino, output, number) }
    }
}
