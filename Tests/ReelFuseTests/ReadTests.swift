import Glibc
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

#if arch(arm64)
    private let direct: Int32 = 0x10000
#else
    private let direct: Int32 = 0x4000
#endif

@Suite("Bytes through the kernel", .serialized, .enabled(if: fuseIsUsable))
struct ReadTests {
    static let length: Int64 = 3_000_017
    static let ways: [MemoryFile.Reading] = [.hit, .parked]

    @Test("A file reads as its bytes from begin to end", arguments: ways)
    func sequential(_ way: MemoryFile.Reading) throws {
        let file = MemoryFile(node: 2, length: Self.length, reading: way)
        try withMount(["film": file]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            #expect(readFile(descriptor, at: 0, count: Int(Self.length) + 4096) == file.bytes(0..<Self.length))
            #expect(readFile(descriptor, at: Int(Self.length), count: 1) == [])
        }
    }

    @Test("Any range reads as its bytes, through the page cache and around it", arguments: ways, [0, direct])
    func random(_ way: MemoryFile.Reading, flags: Int32) throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        let file = MemoryFile(node: 3, length: Self.length, reading: way)
        try withMount(["film": file]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC | flags)
            defer { close(descriptor) }
            for _ in 0..<60 {
                let offset = Int.random(in: 0..<Int(Self.length), using: &generator)
                let count = Int.random(in: 1...1_200_000, using: &generator)
                let expected = file.bytes(Int64(offset)..<Int64(offset + count))
                #expect(readFile(descriptor, at: offset, count: count) == expected, "seed \(seed), \(offset)+\(count)")
            }
        }
    }

    @Test("No read is longer than two blocks, so that nobody waits for more than those", arguments: [0, direct])
    func longest(flags: Int32) throws {
        let file = MemoryFile(node: 2, length: Self.length, reading: .parked)
        try withMount(["film": file]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC | flags)
            defer { close(descriptor) }
            #expect(readFile(descriptor, at: 0, count: Int(Self.length)) == file.bytes(0..<Self.length))
            #expect(mount.filesystem.state.withLock { $0.longestRead } <= 256 << 10)
        }
    }

    @Test("A mapped file shows its bytes", arguments: ways)
    func mapped(_ way: MemoryFile.Reading) throws {
        let file = MemoryFile(node: 2, length: Self.length, reading: way)
        try withMount(["film": file]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
            let memory = mmap(nil, Int(Self.length), PROT_READ, MAP_PRIVATE, descriptor, 0)
            close(descriptor)
            defer { munmap(memory, Int(Self.length)) }
            #expect(memory != MAP_FAILED)
            let bytes = UnsafeRawBufferPointer(start: memory, count: Int(Self.length))
            #expect(bytes.elementsEqual(file.bytes(0..<Self.length)))
        }
    }

    @Test("Many readers of several files at once get each their own bytes")
    func concurrent() throws {
        let files = (2..<8).map {
            MemoryFile(node: $0, length: 700_001, reading: $0 < 5 ? .hit : .parked, seed: UInt8($0))
        }
        try withMount(Dictionary(uniqueKeysWithValues: files.map { ("f\($0.node)", $0) })) { mount in
            let wrong = Monitor(0)
            let threads = (0..<12).map { number in
                Thread("reader") {
                    for round in 0..<6 {
                        let file = files[(number + round) % files.count]
                        let descriptor = open(
                            mount.file("f\(file.node)"), O_RDONLY | O_CLOEXEC | (round % 2 == 0 ? 0 : direct))
                        let bytes = readFile(descriptor, at: 0, count: 700_001)
                        close(descriptor)
                        if bytes != file.bytes(0..<700_001) { wrong.withLock { $0 += 1 } }
                    }
                }
            }
            for thread in threads { thread?.join() }
            #expect(wrong.withLock { $0 } == 0)
            // Releases follow close(2) without anybody waiting for them.
            #expect(eventually { mount.filesystem.state.withLock { $0.openHandles } == 0 })
        }
    }

    @Test("A file of unknown length reads to its end past st_size")
    func unknownLength() throws {
        var file = MemoryFile(node: 2, length: 500_000, wantsDirectIO: true)
        try withMount(["live": file]) { mount in
            mount.filesystem.state.withLock { $0.files["live"]!.length = 0 }
            var status = stat()
            #expect(stat(mount.file("live"), &status) == 0 && status.st_size == 0)
            mount.filesystem.state.withLock { $0.files["live"]!.length = 500_000 }
            let descriptor = open(mount.file("live"), O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            file.wantsDirectIO = true
            #expect(readFile(descriptor, at: 0, count: 600_000) == file.bytes(0..<500_000))
        }
    }

    static let errors: [(VolumeError, Int32)] = [
        (.accessDenied, EACCES), (.stale, ESTALE), (.timedOut, ETIMEDOUT), (.unreachable, EIO), (.offline, ENETUNREACH),
        (.failed, EIO),
        (.interrupted, EINTR), (.notFound, ENOENT), (.readOnly, EROFS), (.isDirectory, EISDIR),
        (.notDirectory, ENOTDIR), (.noAttribute, ENODATA), (.unsupported, EOPNOTSUPP), (.nameTooLong, ENAMETOOLONG),
        (.leadsOut, EXDEV),
    ]

    @Test("A failed read is its errno, at once or later", arguments: errors)
    func failure(_ error: VolumeError, _ number: Int32) throws {
        let files = [
            "now": MemoryFile(node: 2, length: 100, reading: .failed(error), wantsDirectIO: true),
            "later": MemoryFile(node: 4, length: 100, reading: .parkedThenFailed(error), wantsDirectIO: true),
        ]
        try withMount(files) { mount in
            for name in files.keys {
                let descriptor = open(mount.file(name), O_RDONLY | O_CLOEXEC)
                defer { close(descriptor) }
                var byte: UInt8 = 0
                #expect(code { read(descriptor, &byte, 1) } == number)
            }
        }
    }

    @Test("A read that the filesystem loses is EIO, not a hang")
    func dropped() throws {
        try withMount(["lost": MemoryFile(node: 2, length: 100, reading: .dropped)]) { mount in
            let descriptor = open(mount.file("lost"), O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            var byte: UInt8 = 0
            #expect(code { read(descriptor, &byte, 1) } == EIO)
        }
    }
}
