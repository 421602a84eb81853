import CFuse
import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit

/// Programs that use a mount of a random origin in every way, and hold what they get against what the origin has.
final class RandomReaders: Sendable {
    /// What the mount has as `--timeout`, in seconds.
    static let timeout = 3
    /// A deadline, the second above it that is promised, and what a busy machine takes.
    private static let longestWait = Duration.seconds(timeout) + .seconds(2.5)
    /// Through the page cache, for a page of which the kernel asks once more, and not at once.
    private static let longestWaitForPage = longestWait + .seconds(timeout)
    /// A read over a restart has two deadlines, and the time between the daemons; see `RestartTests`.
    private static let longestWaitOverRestart = longestWait * 2 + .seconds(8)
    private static let chunk = 64 << 10
    /// No fault of an origin comes out as another errno.
    private static let allowed: Set = [
        EIO, ESTALE, ETIMEDOUT, ENETUNREACH, EACCES, ENOENT,
        // A listing that calls a file a directory.
        ENOTDIR, EISDIR,
    ]
    private static let ofCrash: Set = [ENOTCONN, ECONNABORTED]

    private let source: RandomSource
    private let mountpoint: String
    private let findings: RandomFindings
    private let isStopped = Atomic(false)
    private let threads = Mutex<[Thread]>([])

    init(_ source: RandomSource, _ mountpoint: String, _ findings: RandomFindings) {
        (self.source, self.mountpoint, self.findings) = (source, mountpoint, findings)
    }

    private var origin: RandomOrigin { source.origin }

    func start(_ count: Int, seed: UInt64) {
        for index in 0..<count {
            let thread = startThread { [self] in
                var random = SeededGenerator(seed: seed &+ UInt64(index))
                while !isStopped.load(ordering: .relaxed) { act(&random) }
            }
            threads.withLock { $0.append(thread) }
        }
    }

    func finish() {
        isStopped.store(true, ordering: .relaxed)
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    /// One whole read. - Returns: nil where it gave the newest version, else what came instead.
    func difference(ofFile index: Int) -> String? {
        var read = RandomRead(index, origin)
        readInOrder(&read, flags: 0)
        if !read.isWhole { return "\(origin.files[index].name): \(findings.lastFailure)" }
        return read.isNewest ? nil : "\(origin.files[index].name): an older version"
    }

    /// What the program says of its requests for a file, and of the mount.
    func explanation(ofFile index: Int) -> String {
        [["explain", path(index)], ["status", "--json", mountpoint]].map { words in
            guard let end = try? ChildProcess.run([program] + words) else { return "\(words): no answer" }
            return end.output + end.errors
        }.joined(separator: "\n")
    }

    private func act(_ random: inout SeededGenerator) {
        let index = origin.files.indices.randomElement(using: &random)!
        let path = path(index)
        var read = RandomRead(index, origin)
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1: readInOrder(&read, flags: 0)
        case 2: readInOrder(&read, flags: directFlag)
        case 3...5: readAtRandom(&read, flags: [0, directFlag].randomElement(using: &random)!, &random)
        case 6:
            _ = call("stat", path) {
                var status = stat(); return Int(lstat(path, &status))
            }
        case 7:
            var value = [UInt8](repeating: 0, count: 4096)
            let name = ["url", "cached", "stale"].randomElement(using: &random)!
            _ = call("getxattr", path, allowing: [ENODATA]) { getxattr(path, "user.reelfs." + name, &value, 4096) }
        case 8: list(RandomOrigin.folders.randomElement(using: &random)!)
        default: withFile(index, flags: 0) { _ in }
        }
    }

    private func path(_ index: Int) -> String { folder + origin.files[index].name }

    private var folder: String { mountpoint + "/" + source.folder }

    private func list(_ folder: String) {
        let start = findings.moment
        do {
            let names = try names(in: self.folder + folder)
            if Set(names).count != names.count || names.contains(where: { $0.contains("/") || $0.utf8.count > 255 }) {
                findings.find("names in \"\(folder)\": \(names)")
            }
            note("readdir", folder, nil, [], since: start)
        } catch { note(error.call, folder, error.number, [], since: start) }
    }

    private func withFile(_ index: Int, flags: Int32, _ body: (Int32) -> Void) {
        let path = path(index)
        // Linux says EINVAL of a directory that is opened so.
        let number = call("open", path, allowing: flags == 0 ? [] : [EINVAL]) {
            Int(open(path, O_RDONLY | O_CLOEXEC | flags))
        }
        guard let number else { return }
        body(Int32(number))
        close(Int32(number))
    }

    private func readInOrder(_ read: inout RandomRead, flags: Int32) {
        withFile(read.file, flags: flags) { file in
            posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
            var offset: Int64 = 0
            while let count = self.read(file, flags, offset, Self.chunk, &read), !isStopped.load(ordering: .relaxed) {
                if count == 0 {
                    read.isWhole = true
                    return
                }
                offset += Int64(count)
            }
        }
    }

    private func readAtRandom(_ read: inout RandomRead, flags: Int32, _ random: inout SeededGenerator) {
        withFile(read.file, flags: flags) { file in
            var status = stat()
            fstat(file, &status)
            guard status.st_size > 0 else { return }
            var failures = 0
            for _ in 0..<Int.random(in: 1...40, using: &random) where !isStopped.load(ordering: .relaxed) {
                var offset = Int64.random(in: 0..<Int64(status.st_size), using: &random)
                // Through the page cache never more than one request of the kernel: two in a row have a deadline each.
                if flags == 0 { offset &= ~Int64(Self.chunk - 1) }
                let count = flags == 0 ? Self.chunk : Int.random(in: 1...Self.chunk, using: &random)
                guard let got = self.read(file, flags, offset, count, &read) else {
                    failures += 1
                    continue
                }
                // What stands behind a short read is bytes, an error, or the end of the file.
                if got < count { _ = self.read(file, flags, offset + Int64(got), Self.chunk - got, &read) }
                if failures > 2 { return }
            }
        }
    }

    /// - Returns: how much came; nil for an error.
    private func read(_ file: Int32, _ flags: Int32, _ offset: Int64, _ count: Int, _ read: inout RandomRead) -> Int? {
        var bytes = [UInt8](repeating: 0xEE, count: count)
        let path = path(read.file)
        let longest = flags == directFlag ? Self.longestWait : Self.longestWaitForPage
        let got = call("pread at \(offset)", path, within: longest) { pread(file, &bytes, count, off_t(offset)) }
        guard let got else { return nil }
        var status = stat()
        fstat(file, &status)
        let size = Int64(status.st_size)
        // A file whose length is not known has size 0, and ends where its body does. The page cache gives the pages
        // before one that failed.
        if got == 0 || got < count && flags == directFlag, size > 0, offset + Int64(got) != size {
            findings.find("\(path): \(got) of \(count) bytes at \(offset), of \(size)")
        }
        if got == 0 {
            if !origin.hasTold(offset, of: read.file) { findings.find("\(path): an end at \(offset), size \(size)") }
            return 0
        }
        if let sentence = read.take(bytes[..<got], at: offset) { findings.find("\(path), size \(size): \(sentence)") }
        findings.bytes(got)
        return got
    }

    /// - Returns: the call's value; nil where it failed.
    private func call(
        _ name: String, _ path: String, allowing more: Set<Int32> = [], within longest: Duration = longestWait,
        _ body: () -> Int
    ) -> Int? {
        let start = findings.moment
        let value = body()
        note(name, path, value < 0 ? errno : nil, more, longest, since: start)
        return value < 0 ? nil : value
    }

    private func note(
        _ name: String, _ path: String, _ number: Int32?, _ more: Set<Int32>, _ longest: Duration = longestWait,
        since start: RandomFindings.Moment
    ) {
        let now = findings.moment
        let time = now.time - start.time
        findings.call(time, number)
        if let number { findings.lastFailure = "\(name) after \(time): \(String(cString: strerror(number)))" }
        let isRestarted = start.restarts != now.restarts || start.restarts % 2 == 1
        if time > (isRestarted ? Self.longestWaitOverRestart : longest) {
            findings.find("\(name) of \(path) took \(time)")
        }
        guard let number, !Self.allowed.contains(number), !more.contains(number) else { return }
        if findings.isCrashed, Self.ofCrash.contains(number) { return }
        findings.find("\(name) of \(path): \(String(cString: strerror(number)))")
    }
}
