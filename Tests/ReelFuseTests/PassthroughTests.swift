import CLinux
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

@Suite("Complete files past the filesystem", .serialized, .enabled(if: passthroughIsUsable))
struct PassthroughTests {
    @Test("With O_DIRECT a file is served, at any offset, also beside readers that go past the filesystem")
    func directIO() throws {
        try withPassthrough { fixture in
            let alone = open(fixture.path, O_RDONLY | O_CLOEXEC | direct)
            #expect(readFile(alone, at: 1_000_001, count: 5000) == fixture.film.bytes(1_000_001..<1_005_001))
            close(alone)
            #expect(fixture.areClosed() && fixture.began == 0 && fixture.reads > 0)
            let past = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(past) }
            #expect(readFile(past, at: 1_000_001, count: 5000) == fixture.film.bytes(1_000_001..<1_005_001))
            let reads = fixture.reads
            let beside = open(fixture.path, O_RDONLY | O_CLOEXEC | direct)
            defer { close(beside) }
            #expect(readFile(beside, at: 1_000_001, count: 5000) == fixture.film.bytes(1_000_001..<1_005_001))
            #expect(fixture.began == 2 && fixture.reads > reads)
        }
    }

    @Test("A complete file reads as its bytes, and the filesystem sees no read")
    func bytes() throws {
        try withPassthrough { fixture in
            #expect(fixture.isRight())
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            var status = stat()
            #expect(fstat(descriptor, &status) == 0 && Int64(status.st_size) == fixture.film.length)
            #expect(status.st_ino == 2 && status.st_mode == S_IFREG | 0o444)
            let memory = UnsafeMutableRawPointer.allocate(byteCount: 1 << 20, alignment: 4096)
            defer { memory.deallocate() }
            for offset in [0, 4096, 1 << 20, 732 * 4096, 733 * 4096] {
                let count = pread(descriptor, memory, 1 << 20, off_t(offset))
                let expected = fixture.film.bytes(Int64(offset)..<Int64(offset + 1 << 20))
                #expect(UnsafeRawBufferPointer(start: memory, count: max(0, count)).elementsEqual(expected))
            }
            #expect(fixture.began == 2 && fixture.reads == 0)
        }
    }

    @Test("Opens of one file share one registration, which ends with the last close")
    func shared() throws {
        try withPassthrough { fixture in
            let descriptors = (0..<5).map { _ in open(fixture.path, O_RDONLY | O_CLOEXEC) }
            for descriptor in descriptors {
                #expect(readFile(descriptor, at: 1_000_000, count: 5000) == fixture.film.bytes(1_000_000..<1_005_000))
            }
            #expect(fixture.opened == 1 && fixture.began == 5 && fixture.reads == 0)
            for descriptor in descriptors.dropLast() { close(descriptor) }
            #expect(fixture.areClosed(but: 1))
            #expect(fixture.registrations.state.withLock { $0.closed } == 0)
            close(descriptors.last!)
            #expect(fixture.areClosed())
            #expect(fixture.registrations.state.withLock { $0.closed } == 1)
            #expect(fixture.isRight() && fixture.opened == 2)
        }
    }

    @Test("A file that becomes complete while it is open is served until its last close")
    func completed() throws {
        try withPassthrough(isComplete: false) { fixture in
            let first = open(fixture.path, O_RDONLY | O_CLOEXEC)
            #expect(readFile(first, at: 0, count: 1000) == fixture.film.bytes(0..<1000))
            fixture.offer(fixture.backing)
            #expect(fixture.isRight())
            #expect(fixture.opened == 0 && fixture.reads > 0)
            #expect(fixture.areClosed(but: 1))
            close(first)
            #expect(fixture.areClosed())
            let reads = fixture.reads
            #expect(fixture.isRight())
            #expect(fixture.began == 1 && fixture.reads == reads)
        }
    }

    @Test("A live mapping of a served file counts as open after its close")
    func servedMapping() throws {
        try withPassthrough(isComplete: false) { fixture in
            let length = Int(fixture.film.length)
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            let memory = mmap(nil, length, PROT_READ, MAP_PRIVATE, descriptor, 0)
            #expect(memory != MAP_FAILED)
            close(descriptor)
            fixture.offer(fixture.backing)
            #expect(fixture.isRight() && fixture.opened == 0)
            #expect(fixture.areClosed(but: 1))
            let bytes = UnsafeRawBufferPointer(start: memory, count: length)
            #expect(bytes.elementsEqual(fixture.film.bytes(0..<fixture.film.length)))
            munmap(memory, length)
            #expect(fixture.areClosed())
            #expect(fixture.isRight() && fixture.began == 1)
        }
    }

    @Test("A mapping past the filesystem outlives its close and the removal of the file on the disk")
    func mapping() throws {
        try withPassthrough { fixture in
            let length = Int(fixture.film.length)
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            let memory = mmap(nil, length, PROT_READ, MAP_PRIVATE, descriptor, 0)
            #expect(memory != MAP_FAILED)
            close(descriptor)
            defer { munmap(memory, length) }
            // The release comes although the mapping lives: this is why an offered file is only ever unlinked.
            #expect(fixture.areClosed())
            unlink(fixture.backing)
            fixture.offer(nil)
            let bytes = UnsafeRawBufferPointer(start: memory, count: length)
            #expect(bytes.elementsEqual(fixture.film.bytes(0..<fixture.film.length)))
            #expect(fixture.reads == 0)
            #expect(fixture.isRight() && fixture.reads > 0)
        }
    }

    @Test("A write lease shows whether a file is still read past the filesystem, by handles or by mappings")
    func lease() throws {
        try withPassthrough { fixture in
            let other = open(fixture.backing, O_RDWR | O_CLOEXEC)
            defer { close(other) }
            #expect(reel_is_open_elsewhere(other) == 0)
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            #expect(reel_is_open_elsewhere(other) == EAGAIN)
            let memory = mmap(nil, 4096, PROT_READ, MAP_SHARED, descriptor, 0)
            close(descriptor)
            #expect(fixture.areClosed())
            #expect(reel_is_open_elsewhere(other) == EAGAIN)
            munmap(memory, 4096)
            #expect(eventually { reel_is_open_elsewhere(other) == 0 })
        }
    }

    @Test("Whatever would change a file read past the filesystem is refused")
    func readOnly() throws {
        try withPassthrough { fixture in
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            for flags in [O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_TRUNC] {
                #expect(code { Int(open(fixture.path, flags)) } == EROFS)
            }
            #expect(code { Int(ftruncate(descriptor, 0)) } == EINVAL)
            #expect(code { Int(truncate(fixture.path, 0)) } == EROFS)
            var byte: UInt8 = 0
            #expect(code { pwrite(descriptor, &byte, 1, 0) } == EBADF)
            #expect(code { Int(bitPattern: mmap(nil, 4096, PROT_WRITE, MAP_SHARED, descriptor, 0)) } == EACCES)
            #expect(fixture.isRight())
            var status = stat()
            #expect(stat(fixture.backing, &status) == 0 && Int64(status.st_size) == fixture.film.length)
        }
    }

    @Test("sendfile and copies give its bytes, advice is heard, and what the kernel then asks for is served")
    func otherCalls() throws {
        try withPassthrough { fixture in
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            let target = fixture.backing + ".copy"
            defer { unlink(target) }
            let copy = open(target, O_RDWR | O_CREAT | O_TRUNC, 0o600)
            defer { close(copy) }
            var offset: off_t = 0
            while sendfile(copy, descriptor, &offset, 1 << 20) > 0 {}
            #expect(readFile(copy, at: 0, count: 4_000_000) == fixture.film.bytes(0..<fixture.film.length))
            // Between two filesystems: cp then reads and writes.
            #expect(code { reel_copy_file_range(descriptor, copy, 4096) } == EXDEV)
            #expect(fixture.reads == 0)
            for advice in [POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM, POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED] {
                #expect(posix_fadvise(descriptor, 0, 1 << 20, advice) == 0)
            }
            // WILLNEED fills the node's own page cache, for which the kernel asks the filesystem.
            #expect(eventually { fixture.reads > 0 })
            #expect(readFile(descriptor, at: 0, count: 4_000_000) == fixture.film.bytes(0..<fixture.film.length))
        }
    }

    @Test("Threads that open, read and close while the file is complete now and then see its bytes and no error")
    func races() throws {
        try withPassthrough { fixture in
            let wrong = Monitor(0)
            let running = Monitor(6)
            let threads = (0..<6).map { number in
                Thread("racer") {
                    for round in 0..<60 {
                        let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
                        let start = (round * 40_009 + number * 7) % 2_900_000
                        let bytes = readFile(descriptor, at: start, count: 9000)
                        close(descriptor)
                        let isRight = bytes == fixture.film.bytes(Int64(start)..<Int64(start) + 9000)
                        if !isRight { wrong.withLock { $0 += 1 } }
                    }
                    running.withLock { $0 -= 1 }
                }
            }
            while running.withLock({ $0 > 0 }) {
                // A file that was offered stays so while it is open.
                fixture.mount.filesystem.state.withLock { state in
                    if state.openHandles == 0 { state.files["film"]!.backing = nil }
                }
                sched_yield()
                fixture.offer(fixture.backing)
            }
            for thread in threads { thread?.join() }
            #expect(wrong.withLock { $0 } == 0)
            #expect(fixture.areClosed())
            let state = fixture.registrations.state.withLock { $0 }
            #expect(state.opened == state.closed)
        }
    }
}
