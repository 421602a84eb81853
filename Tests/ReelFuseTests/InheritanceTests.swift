import Glibc
import Logging
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse
@testable import ReelVolume

@Suite("A mount that goes from one process to the next", .serialized, .enabled(if: fuseIsUsable))
struct InheritanceTests {
    /// A session that serves what another one has left, until the end of `body`.
    private func succeed(
        _ session: FuseSession, _ path: String, _ filesystem: MemoryFilesystem,
        _ body: (FuseSession) throws -> Void
    ) throws {
        let left = try #require(session.leave())
        // As it comes from another process.
        let inheritance = try #require(decoded(left.inheritance))
        var options = FuseSession.Options(
            source: "http://h/", mountpoint: path, ownership: Ownership(user: 0, group: 0))
        options.device = MountDevice(descriptor: dup(left.device), number: session.device)
        options.inheritance = inheritance
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let next = try FuseSession(filesystem, options: options, logger: logger)
        let late = filesystem.answerLate()
        try next.start()
        let end = Thread("next") { next.wait() }
        defer {
            next.stop()
            end?.join()
            filesystem.state.withLock { $0.isOver = true }
            late?.join()
        }
        try body(next)
    }

    private func decoded(_ inheritance: Inheritance) -> Inheritance? {
        var copy = inheritance
        copy.nodes.sort { $0.number < $1.number }
        return copy
    }

    @Test("Reads that wait go on, open files and directories stay open, and a changed file is stale")
    func takenOver() throws {
        let before = [
            "a": MemoryFile(node: 2, length: 300_000), "b": MemoryFile(node: 3, length: 200_000, reading: .never),
            "c": MemoryFile(node: 4, length: 1000), "d": MemoryFile(node: 5, length: 10),
        ]
        // Other numbers, of which some were another file's.
        let after = [
            "a": MemoryFile(node: 3, length: 300_000), "b": MemoryFile(node: 2, length: 200_000),
            "c": MemoryFile(node: 5, length: 2000), "d": MemoryFile(node: 6, length: 10),
        ]
        try withMount(before) { mount in
            let files = ["a", "b", "c"].map { open(mount.file($0), O_RDONLY | O_CLOEXEC) }
            let folder = try #require(opendir(mount.path))
            #expect(readFile(files[0], at: 0, count: 1000) == before["a"]!.bytes(0..<1000))
            let answer = Monitor<[UInt8]?>(nil)
            let reader = Thread("reader") {
                let bytes = readFile(files[1], at: 0, count: 4096) ?? []
                answer.withLock { $0 = bytes }
            }
            defer { reader?.join() }
            #expect(eventually { mount.filesystem.state.withLock { $0.parked } > 0 })
            let next = MemoryFilesystem(after)
            try succeed(mount.session, mount.path, next) { session in
                #expect(answer.wait(atMost: .seconds(10)) { $0 } == after["b"]!.bytes(0..<4096))
                #expect(readFile(files[0], at: 200_000, count: 50_000) == after["a"]!.bytes(200_000..<250_000))
                var byte: UInt8 = 0
                #expect(code { pread(files[2], &byte, 1, 0) } == ESTALE)
                var names: Set<String> = []
                while let entry = readdir(folder) {
                    names.insert(
                        withUnsafePointer(to: &entry.pointee.d_name) {
                            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                        })
                }
                #expect(names.isSuperset(of: ["a", "b", "c", "d"]))
                var status = stat()
                #expect(fstat(files[0], &status) == 0 && status.st_size == 300_000)
                for (name, file) in after {
                    let again = open(mount.file(name), O_RDONLY | O_CLOEXEC)
                    #expect(readFile(again, at: 0, count: Int(file.length)) == file.bytes(0..<file.length), "\(name)")
                    close(again)
                }
                for file in files { close(file) }
                closedir(folder)
                #expect(eventually { next.state.withLock { $0.openHandles } == 0 })
                session.stop()
                session.giveBack()
            }
            #expect(
                next.state.withLock { $0.references.values.allSatisfy { $0 == 0 } },
                "\(next.state.withLock { $0.references })")
        }
    }

    @Test("A mount that goes through many processes keeps its files")
    func chain() throws {
        func files(_ round: UInt64) -> [String: MemoryFile] {
            let names = ["a", "b", "c"]
            return Dictionary(
                uniqueKeysWithValues: names.enumerated().map {
                    ($1, MemoryFile(node: 2 + (UInt64($0) + round) % 3, length: 100_000, seed: UInt8($0)))
                })
        }
        try withMount(files(0)) { mount in
            let first = open(mount.file("a"), O_RDONLY | O_CLOEXEC)
            defer { close(first) }
            func go(_ round: UInt64, _ session: FuseSession, _ opened: [(String, Int32)]) throws {
                if round > 70 { return }
                let next = MemoryFilesystem(files(round))
                try succeed(session, mount.path, next) { session in
                    var opened = opened
                    let name = ["a", "b", "c"][Int(round % 3)]
                    let file = open(mount.file(name), O_RDONLY | O_CLOEXEC)
                    defer { close(file) }
                    opened.append((name, file))
                    for (name, file) in opened + [("a", first)] {
                        let offset = Int(round) * 1000
                        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
                        let bytes = files(round)[name]!.bytes(Int64(offset)..<Int64(offset + 1000))
                        #expect(readFile(file, at: offset, count: 1000) == bytes, "\(round) \(name)")
                    }
                    try go(round + 1, session, opened.suffix(5))
                }
            }
            try go(1, mount.session, [])
        }
    }
}
