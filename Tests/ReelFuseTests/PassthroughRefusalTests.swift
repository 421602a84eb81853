import Glibc
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

@Suite("Where passthrough is refused, and how it ends", .serialized, .enabled(if: passthroughIsUsable))
struct PassthroughRefusalTests {
    @Test("A mount that was given no directory serves everything itself")
    func notAsked() throws {
        try withMount(["film": MemoryFile(node: 2, length: 5000, backing: "/proc/self/exe")]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            #expect(readFile(descriptor, at: 0, count: 6000) == MemoryFile(node: 2, length: 5000).bytes(0..<5000))
            #expect(!mount.session.isPassthroughPossible)
            #expect(mount.filesystem.state.withLock { $0.began == 0 && $0.reads > 0 })
        }
    }

    @Test("A refusal for good is asked for once", arguments: [EPERM, ELOOP, ENOTTY])
    func forGood(code: Int32) throws {
        try withPassthrough { fixture in
            fixture.registrations.state.withLock { $0.refusals = [code] }
            for _ in 0..<3 {
                #expect(fixture.isRight())
                #expect(fixture.areClosed())
            }
            #expect(fixture.opened == 1 && fixture.began == 0 && fixture.reads > 0)
            #expect(!fixture.mount.session.isPassthroughPossible)
        }
    }

    @Test("A passing refusal concerns one opening: the next is tried again", arguments: [ENOMEM, ENOSPC, EBADF])
    func passing(code: Int32) throws {
        try withPassthrough { fixture in
            fixture.registrations.state.withLock { $0.refusals = [code] }
            let first = open(fixture.path, O_RDONLY | O_CLOEXEC)
            #expect(fixture.isRight() && fixture.opened == 1 && fixture.began == 0)
            close(first)
            #expect(fixture.areClosed())
            #expect(fixture.isRight() && fixture.opened == 2 && fixture.began == 1)
            #expect(fixture.mount.session.isPassthroughPossible)
        }
    }

    @Test("A file that is longer or shorter than announced is never used", arguments: [-1, 1])
    func length(change: Int64) throws {
        try withPassthrough { fixture in
            #expect(truncate(fixture.backing, off_t(fixture.film.length + change)) == 0)
            #expect(fixture.isRight() && fixture.opened == 0 && fixture.began == 0)
        }
    }

    @Test("While a file is read past the filesystem, another one or none behind the same node is ESTALE")
    func another() throws {
        try withPassthrough { fixture in
            let other = fixture.backing + ".other"
            defer { unlink(other) }
            try write(fixture.film.bytes(0..<fixture.film.length), to: other)
            let first = open(fixture.path, O_RDONLY | O_CLOEXEC)
            for offer in [other, nil] {
                fixture.offer(offer)
                #expect(code { Int(open(fixture.path, O_RDONLY | O_CLOEXEC)) } == ESTALE)
            }
            #expect(readFile(first, at: 0, count: 100) == fixture.film.bytes(0..<100))
            #expect(fixture.areClosed(but: 1))
            close(first)
            #expect(fixture.areClosed())
            fixture.offer(other)
            #expect(fixture.isRight() && fixture.began == 2 && fixture.reads == 0)
        }
    }

    @Test("A filesystem that gives such a file another node has it served, beside readers that go past it")
    func superseded() throws {
        try withPassthrough { fixture in
            fixture.mount.filesystem.state.withLock { $0.supersedes = true }
            let first = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(first) }
            // A block of it is in doubt by now.
            fixture.offer(nil)
            #expect(fixture.isRight() && fixture.began == 1 && fixture.reads > 0)
            #expect(readFile(first, at: 0, count: 100) == fixture.film.bytes(0..<100))
            #expect(fixture.areClosed(but: 1))
        }
    }

    @Test("On an overlay it works if the mount knows of it, and the kernel refuses for good if it does not")
    func overlay() throws {
        try withTemporaryDirectory { root in
            try #require(mount("tmpfs", root, "tmpfs", 0, nil) == 0)
            defer { umount2(root, Int32(MNT_DETACH)) }
            for name in ["lower", "upper", "work", "both"] { mkdir("\(root)/\(name)", 0o755) }
            let layers = "lowerdir=\(root)/lower,upperdir=\(root)/upper,workdir=\(root)/work"
            try #require(mount("overlay", root + "/both", "overlay", 0, layers) == 0)
            defer { umount2(root + "/both", Int32(MNT_DETACH)) }
            try withPassthrough(directory: root + "/both") { fixture in
                #expect(fixture.isRight() && fixture.began == 1 && fixture.reads == 0)
            }
            try withPassthrough(directory: root + "/both", told: root) { fixture in
                #expect(fixture.isRight() && fixture.opened == 1 && fixture.began == 0 && fixture.reads > 0)
                #expect(!fixture.mount.session.isPassthroughPossible)
            }
        }
    }

    @Test("A mount with such a file open is busy; ended all the same, the file reads on")
    func ended() throws {
        try withPassthrough { fixture in
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            let memory = mmap(nil, 4096, PROT_READ, MAP_PRIVATE, descriptor, 1 << 20)
            defer { munmap(memory, 4096) }
            #expect(code { Int(umount2(fixture.mount.path, 0)) } == EBUSY)
            fixture.mount.session.stop()
            #expect(fixture.mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
            #expect(!Mount.all().contains { $0.mountpoint == fixture.mount.path })
            unlink(fixture.backing)
            let all = 0..<fixture.film.length
            #expect(readFile(descriptor, at: 0, count: Int(fixture.film.length)) == fixture.film.bytes(all))
            let mapped = UnsafeRawBufferPointer(start: memory, count: 4096)
            #expect(mapped.elementsEqual(fixture.film.bytes(1 << 20..<1 << 20 + 4096)))
        }
    }

    @Test("umount -l: the file reads on past the filesystem, and its close ends the session")
    func lazilyUnmounted() throws {
        try withPassthrough { fixture in
            let descriptor = open(fixture.path, O_RDONLY | O_CLOEXEC)
            #expect(umount2(fixture.mount.path, Int32(MNT_DETACH)) == 0)
            #expect(readFile(descriptor, at: 0, count: 100) == fixture.film.bytes(0..<100))
            #expect(!fixture.mount.hasEnded.withLock { $0 })
            close(descriptor)
            #expect(fixture.mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
            #expect(fixture.began == 1 && fixture.reads == 0)
        }
    }
}
