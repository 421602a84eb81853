import FoundationEssentials
import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

@Suite("A mount that goes from one process to the next", .serialized, .enabled(if: fuseIsUsable))
struct InheritanceTests {
    /// A session that serves what another one has left, until the end of `body`.
    /// - Parameter change: of what it has left.
    private func succeed(
        _ session: FuseSession, _ path: String, _ filesystem: MemoryFilesystem,
        change: (inout Inheritance) -> Void = { _ in }, _ body: (FuseSession) throws -> Void
    ) throws {
        let left = try #require(session.leave())
        // As it comes from another process.
        var inheritance = try #require(decoded(left.inheritance))
        change(&inheritance)
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

    @Test("A mount that has ended is left to nobody")
    func ended() throws {
        try withMount([:]) { mount in
            #expect(unmount(mount.path))
            mount.hasEnded.wait { $0 ? () : nil }
            #expect(mount.session.leave() == nil)
        }
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
                // From memory.
                #expect(next.state.withLock { $0.reopened } == 3)
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

    @Test("A body of unknown length does not go on in another body")
    func unknownLength() throws {
        let files = ["live": MemoryFile(node: 2, length: 100_000, wantsDirectIO: true)]
        try withMount(files) { mount in
            let file = open(mount.file("live"), O_RDONLY | O_CLOEXEC)
            defer { close(file) }
            #expect(readFile(file, at: 0, count: 1000) == files["live"]!.bytes(0..<1000))
            try succeed(mount.session, mount.path, MemoryFilesystem(files)) { _ in
                var byte: UInt8 = 0
                #expect(code { pread(file, &byte, 1, 1000) } == ESTALE)
                let again = open(mount.file("live"), O_RDONLY | O_CLOEXEC)
                #expect(readFile(again, at: 0, count: 1000) == files["live"]!.bytes(0..<1000))
                close(again)
            }
        }
    }

    /// The file `a`, which was open as number 9 when the process before left.
    private func leftFile(_ file: MemoryFile) -> (MemoryFilesystem, Inheritance) {
        let filesystem = MemoryFilesystem(["a": file])
        var inheritance = Inheritance()
        inheritance.nodes = [
            Inheritance.Node(number: 50, references: 1, parent: rootNode, name: "a", isDirectory: false)
        ]
        let version = Inheritance.Version(MemoryFilesystem.Handle(file, filesystem.state))
        inheritance.files = [Inheritance.File(number: 9, node: 50, version: version)]
        return (filesystem, inheritance)
    }

    @Test("A file that has grown since a restart goes on after the next one with the length that it has by then")
    func grown() {
        let (filesystem, inheritance) = leftFile(MemoryFile(node: 2, length: 1000))
        let version = inheritance.files[0].version
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let adapter = Adapter(
            filesystem: filesystem, ownership: Ownership(user: 0, group: 0),
            passthrough: Passthrough(depth: 0, calls: .kernel, logger: logger), inheritance: inheritance,
            logger: logger)
        defer { adapter.holdings.giveBack(adapter) }
        // Not open yet.
        #expect(adapter.left().files.map(\.version) == [version])
        adapter.inherited?.reopen { _, _ in }
        filesystem.state.withLock { $0.grown[2] = 2000 }
        #expect(adapter.left().files.map(\.version.length) == [2000])
    }

    @Test("A read that was given up before its file is open again is not made")
    func givenUp() {
        // Its lookup is answered late.
        let (filesystem, inheritance) = leftFile(MemoryFile(node: 3, length: 1000))
        let inherited = InheritedFilesystem(filesystem, inheritance, epoch: 1)
        for isAnswered in [true, false] {
            withUnsafeTemporaryAllocation(byteCount: 10, alignment: 16) { buffer in
                _ = inherited.read(inherited.files[9]!, offset: 0, into: buffer) { SilentRead(isAnswered) }
            }
        }
        let late = filesystem.state.withLock { state in
            defer { state.late = [] }
            return state.late
        }
        for answer in late { answer() }
        #expect(filesystem.state.withLock { $0.reads } == 1)
    }

    @Test("A directory from earlier that did not fit into a listing is still looked up by its path")
    func notFitting() {
        let nodes = InheritedNodes(
            [Inheritance.Node(number: 50, references: 1, parent: rootNode, name: "a", isDirectory: true)], epoch: 1)
        let directory = NumberedDirectory(NamedDirectory(["a", "b"]), rootNode, nodes, MemoryFilesystem([:]))
        for fits in [false, true, true] {
            var told: [NodeID?] = []
            directory.items(from: 0, withAttributes: true) { item in
                if fits { told.append(item.entry?.node) }
                return fits
            }
            // The kernel keeps the number that it has of `a`.
            let renamed: NodeID = 3 | 1 << 26
            #expect(told == (fits ? [nil, renamed] : []))
            guard case .asked("a", in: rootNode) = nodes.place(of: 50, { _ in }) else {
                Issue.record("\(fits)")
                continue
            }
            // The lookup has failed for a moment.
            _ = nodes.looked(50, .failure(.timedOut))
        }
        _ = nodes.place(of: 50) { _ in }
        _ = nodes.looked(50, .success(2))
        var told: [NodeID?] = []
        directory.items(from: 0, withAttributes: true) { item in
            told.append(item.entry?.node)
            return true
        }
        let renamed: NodeID = 3 | 1 << 26
        #expect(told == [50, renamed])
    }

    @Test("A number that comes again is another file to the kernel, which drops the pages of the first")
    func generations() throws {
        let first = ["a": MemoryFile(node: 2, length: 100_000)]
        let second = ["b": MemoryFile(node: 2, length: 100_000, seed: 1)]
        func read(_ path: String) -> [UInt8]? {
            let file = open(path, O_RDONLY | O_CLOEXEC)
            defer { close(file) }
            return readFile(file, at: 0, count: 100_000)
        }
        try withMount([:]) { mount in
            try succeed(mount.session, mount.path, MemoryFilesystem(first)) { session in
                #expect(read(mount.file("a")) == first["a"]!.bytes(0..<100_000))
                // As after this many more processes.
                try succeed(session, mount.path, MemoryFilesystem(second), change: { $0.epoch += 63 }) { session in
                    #expect(read(mount.file("b")) == second["b"]!.bytes(0..<100_000))
                    let file = open(mount.file("b"), O_RDONLY | O_CLOEXEC)
                    defer { close(file) }
                    // A number keeps the generation with which the kernel has it.
                    try succeed(session, mount.path, MemoryFilesystem(second)) { _ in
                        var status = stat()
                        #expect(stat(mount.file("b"), &status) == 0)
                        #expect(readFile(file, at: 50_000, count: 1000) == second["b"]!.bytes(50_000..<51_000))
                    }
                }
            }
        }
    }

    @Test("Marks follow each other, and one of which the kernel holds a number is left out")
    func epochs() {
        var inheritance = Inheritance()
        #expect(inheritance.nextEpoch == 1)
        inheritance.epoch = 63
        #expect(inheritance.nextEpoch == 65 && KernelNumber.generation(of: 65) == 1)
        inheritance.nodes = [
            Inheritance.Node(number: 7 | 1 << 26, references: 1, parent: rootNode, name: "a", isDirectory: true)
        ]
        inheritance.files = [
            Inheritance.File(number: 8 | 2 << 48, node: 7, version: Inheritance.Version(NoFile()))
        ]
        #expect(inheritance.nextEpoch == 67)
    }

    @Test("What an earlier version of the program has left is read")
    func earlierVersion() throws {
        let text = #"""
            {"directories":[{"node":1,"number":5}],"epoch":3,"files":[],"handshake":[],"isPassthrough":false,"modes":[],
            "nodes":[{"isDirectory":true,"name":"a","number":9,"parent":1,"references":2}]}
            """#
        let read = try JSONDecoder().decode(Inheritance.self, from: Data(text.utf8))
        #expect(read.epoch == 3 && read.nodes.first?.generation == nil && read.directories.first?.items == nil)
        #expect(InheritedNodes(read.nodes, epoch: read.nextEpoch).generation(of: 9) == 0)
    }

    @Test("A directory is read on where it was, although its listing has another order and other names by now")
    func readingOn() throws {
        func files(_ names: [String]) -> [String: MemoryFile] {
            Dictionary(
                uniqueKeysWithValues: names.enumerated().map { ($1, MemoryFile(node: 2 + UInt64($0), length: 10)) })
        }
        let names = (1000..<1500).map { "film \($0).mkv" }
        // The kernel has asked for more names than the program took, and the last of them are gone.
        let staying = names.prefix(20) + names.dropFirst(100)
        let after = ["a", "b", "c"] + staying.reversed()
        try withMount(files(names)) { mount in
            let folder = open(mount.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            defer { close(folder) }
            var seen = try nextNames(folder)
            let first = seen.count
            try succeed(mount.session, mount.path, MemoryFilesystem(files(after))) { session in
                // Once more, in the middle of what is left of the first listing.
                seen += try nextNames(folder)
                try succeed(session, mount.path, MemoryFilesystem(files(names))) { _ in
                    while case let more = try nextNames(folder), !more.isEmpty { seen += more }
                    #expect(first < 20 && Set(seen).count == seen.count, "\(first), \(seen.count)")
                    #expect(Set(seen).isSuperset(of: staying) && Set(seen).isSubset(of: names + [".", ".."]))
                }
            }
        }
    }

    @Test("Read from its beginning again, a directory from earlier is the listing of now")
    func readAgain() {
        let items = ["a", "b", "c"].enumerated().map { Inheritance.Item(name: $1, nextOffset: $0 + 1) }
        let directory = InheritedDirectory(Inheritance.Directory(number: 9, node: rootNode, items: items))
        func names(from offset: Int) -> [String] {
            var names: [String] = []
            directory.items(from: offset, withAttributes: false) { item in
                names.append(item.name)
                return true
            }
            return names
        }
        let now = NamedDirectory(["c", "x", "b"])
        #expect(directory.reopened.then { _ in } && directory.reopened.opened(.success(now)))
        #expect(names(from: 1) == ["b", "c"] && names(from: 2) == ["c"] && names(from: 3) == [])
        #expect(names(from: 0) == ["c", "x", "b"] && names(from: 1) == ["x", "b"])
    }

    @Test("An origin that does not answer is not taken for a directory that has gone")
    func slowParent() {
        let filesystem = MemoryFilesystem([:])
        filesystem.state.withLock { $0.failure = .timedOut }
        var inheritance = Inheritance()
        inheritance.nodes = [
            Inheritance.Node(number: 50, references: 1, parent: rootNode, name: "a", isDirectory: true)
        ]
        let inherited = InheritedFilesystem(filesystem, inheritance, epoch: 1)
        let answer = Monitor<VolumeError?>(nil)
        inherited.lookup("film", in: 50) { result in
            if case .failure(let error) = result { answer.withLock { $0 = error } }
        }
        #expect(answer.withLock { $0 } == .timedOut)
    }

    @Test("Notices that wait do not grow without end: one for each directory stands for the rest")
    func manyNotices() {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let notifier = KernelNotifier(Passthrough(depth: 0, calls: .kernel, logger: logger))
        for number in 0..<200_000 {
            notifier.forgetEntry("film \(number)", in: NodeID(2 + number % 2))
            notifier.forgetPages(of: 9, ByteRange(0, 1))
            notifier.forgetDirectory(4)
        }
        #expect(notifier.waiting == KernelNotifier.mostWaiting + 2)
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

/// A directory of directories, whose nodes are 2 and the numbers after it.
private final class NamedDirectory: DirectoryHandle {
    let names: [String]
    let isHeldByKernel = false

    init(_ names: [String]) { self.names = names }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        for (number, name) in names.enumerated().dropFirst(offset) {
            let node = NodeID(2 + number)
            let attributes = Attributes(inode: node, isDirectory: true, length: 0, modified: 0)
            let item = DirectoryItem(
                name: name, inode: node, isDirectory: true, nextOffset: number + 1,
                entry: Entry(node: node, attributes: attributes))
            if !add(item) { return }
        }
    }
}

private final class SilentRead: ParkedRead {
    let isAnswered: Bool

    init(_ isAnswered: Bool) { self.isAnswered = isAnswered }

    func succeed(_ bytes: UnsafeRawBufferPointer) {}
    func fail(_ error: VolumeError) {}
}

private final class NoFile: FileHandle {
    let wantsDirectIO = false
}
