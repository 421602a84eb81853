import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

@Suite("Ends of waiting and of mounts", .serialized, .enabled(if: fuseIsUsable))
struct EndTests {
    /// A thread inside read(2) on a file that never answers.
    final class Reader: Sendable {
        let result = Monitor<Int32?>(nil)
        let thread: ReelThreads.Thread?

        init(_ path: String) {
            thread = Thread("reader") { [result] in
                // Inherited from a thread of the test runner, which blocks it.
                var signals = sigset_t()
                sigemptyset(&signals)
                sigaddset(&signals, SIGUSR2)
                pthread_sigmask(SIG_UNBLOCK, &signals, nil)
                let descriptor = open(path, O_RDONLY | O_CLOEXEC)
                var byte: UInt8 = 0
                let number = code { read(descriptor, &byte, 1) }
                result.withLock { $0 = number }
                close(descriptor)
            }
        }
    }

    @Test("A signal ends a parked direct read with EINTR, and the filesystem is notified")
    func interrupt() throws {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(SIGUSR2, &action, nil)
        try withMount(["slow": MemoryFile(node: 2, length: 100, reading: .never, wantsDirectIO: true)]) { mount in
            let reader = Reader(mount.file("slow"))
            let isParked = mount.filesystem.state.wait(atMost: .seconds(10)) { $0.parked == 1 ? true : nil }
            #expect(isParked == true)
            pthread_kill(try #require(reader.thread).handle, SIGUSR2)
            #expect(reader.result.wait(atMost: .seconds(10)) { $0 } == EINTR)
            #expect(mount.filesystem.state.wait(atMost: .seconds(10)) { $0.abandoned == 1 ? true : nil } == true)
            reader.thread?.join()
            // The answer that comes after all is ignored.
            let late = mount.filesystem.state.withLock { $0.kept }
            for read in late { read.fail(.failed) }
        }
    }

    /// A child that waits for a direct read, and was stopped and continued meanwhile: the kernel has reported a signal.
    private func withStoppedReader(_ body: (MountFixture, ChildProcess) throws -> Void) throws {
        let file = MemoryFile(node: 2, length: 100, reading: .never, wantsDirectIO: true)
        try withMount(["slow": file]) { mount in
            let reader = try ChildProcess(["head", "-c", "100", mount.file("slow")])
            defer { if reader.poll() == nil { reader.signal(SIGKILL) } }
            try #require(mount.filesystem.state.wait(atMost: .seconds(10)) { $0.parked == 1 ? true : nil } == true)
            reader.signal(SIGSTOP)
            // The mount has been notified, and has a thread look at the reader from then on.
            try #require(eventually { hasThread("signals") })
            reader.signal(SIGCONT)
            try body(mount, reader)
        }
    }

    private func hasThread(_ name: String) -> Bool {
        entryNames(in: "/proc/self/task").contains {
            contents(of: "/proc/self/task/\($0)/comm") == name + "\n"
        }
    }

    @Test("A reader that is stopped and sent on meanwhile gets its bytes")
    func stopped() throws {
        try withStoppedReader { mount, reader in
            for read in mount.filesystem.state.withLock({ $0.kept }) {
                [UInt8](repeating: 65, count: 100).withUnsafeBytes { read.succeed($0) }
            }
            let end = try reader.wait()
            #expect(end.status == 0 && end.output.utf8.count == 100, "\(end)")
            // Asked once: head(1) would try again after an EINTR.
            #expect(mount.filesystem.state.withLock { $0.abandoned == 0 && $0.parked == 1 })
        }
    }

    @Test("A reader that was stopped and sent on ends by its signal all the same", arguments: [SIGINT, SIGKILL])
    func stoppedAndEnded(number: Int32) throws {
        try withStoppedReader { mount, reader in
            reader.signal(number)
            let end = try reader.wait(within: .seconds(10))
            #expect(end.status == 128 + number)
            #expect(mount.filesystem.state.wait(atMost: .seconds(10)) { $0.abandoned == 1 ? true : nil } == true)
            for read in mount.filesystem.state.withLock({ $0.kept }) { read.fail(.failed) }
        }
    }

    @Test("Signals that a file's reader outlives, and those that it does not")
    func pendingSignals() {
        func endTheWait(_ own: String, _ shared: String, _ blocked: String) -> Bool? {
            PendingSignals(
                status: "Name:\thead\nSigPnd:\t\(own)\nShdPnd:\t\(shared)\nSigBlk:\t\(blocked)\nSigIgn:\t0\n")?
                .endTheWait
        }
        let none = "0000000000000000"
        #expect(endTheWait(none, none, none) == false)
        for number in [SIGSTOP, SIGTSTP, SIGCONT, SIGCHLD, SIGWINCH, SIGURG, SIGPROF] {
            #expect(endTheWait(none, String(1 << UInt64(number - 1), radix: 16), none) == false, "\(number)")
        }
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGALRM, SIGTERM, SIGUSR1, 64] {
            let bit = String(UInt64(1) << UInt64(number - 1), radix: 16)
            #expect(endTheWait(bit, none, none) == true && endTheWait(none, bit, none) == true, "\(number)")
            #expect(endTheWait(bit, none, bit) == false, "\(number)")
        }
        #expect(PendingSignals(status: "") == nil && PendingSignals(status: "SigPnd:\tx\n") == nil)
    }

    @Test("A mount whose handshake fails is an error, and leaves nothing on its directory")
    func failedHandshake() throws {
        try withTemporaryDirectory { path in
            let filesystem = MemoryFilesystem([:])
            let late = filesystem.answerLate()
            defer {
                umount2(path, Int32(MNT_FORCE | MNT_DETACH))
                filesystem.state.withLock { $0.isOver = true }
                late?.join()
            }
            let options = FuseSession.Options(
                source: "http://h/", mountpoint: path, ownership: Ownership(user: 0, group: 0))
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let session = try FuseSession(filesystem, options: options, logger: logger)
            // Held (O_PATH, which Glibc's module hides behind _GNU_SOURCE, asks nobody), so that the connection is
            // aborted and the mount stays.
            let held = open(path, 0x20_0000 | O_CLOEXEC)
            defer { close(held) }
            try #require(held >= 0 && umount2(path, Int32(MNT_FORCE)) != 0 && errno == EBUSY)
            #expect(Mount.all().contains { $0.mountpoint == path })
            #expect(throws: MountError.self) { try session.start() }
            #expect(!Mount.all().contains { $0.mountpoint == path })
        }
    }

    @Test("A mount ends while the kernel is to forget a page that a read holds")
    func stopWithANoticeUnderWay() throws {
        let file = MemoryFile(node: 2, length: 1 << 20, reading: .never)
        try withMount(["slow": file]) { mount in
            let reader = Reader(mount.file("slow"))
            #expect(mount.filesystem.state.wait(atMost: .seconds(10)) { $0.parked > 0 ? true : nil } == true)
            mount.session.kernelCache.forgetPages(of: 2, ByteRange(0, 1 << 20))
            // Behind the notice, on the same thread: it is inside the kernel when this does not come about.
            mount.session.kernelCache.forgetEntry("slow", in: rootNode)
            let stopper = Thread("stopper") { mount.session.stop() }
            #expect(mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
            stopper?.join()
            #expect(reader.result.wait(atMost: .seconds(10)) { $0 } != nil)
            reader.thread?.join()
        }
    }

    @Test("A mount ends while reads are parked and files are open", arguments: [true, false])
    func stopWithParkedReads(isDirect: Bool) throws {
        let file = MemoryFile(node: 2, length: 100, reading: .never, wantsDirectIO: isDirect)
        try withMount(["slow": file, "film": MemoryFile(node: 4, length: 100)]) { mount in
            let readers = (0..<4).map { _ in Reader(mount.file("slow")) }
            // Through the page cache the readers share one request.
            let expected = isDirect ? 4 : 1
            #expect(mount.filesystem.state.wait(atMost: .seconds(10)) { $0.parked >= expected ? true : nil } == true)
            let open = Glibc.open(mount.file("film"), O_RDONLY | O_CLOEXEC)
            defer { close(open) }
            mount.session.stop()
            // Nothing else would ever answer them.
            for reader in readers {
                let number = reader.result.wait(atMost: .seconds(10)) { $0 }
                // The page cache asks once more after the end, and the answer then depends on the moment.
                #expect(isDirect ? number == ENOTCONN : number != nil && number != 0)
            }
            #expect(eventually { !Mount.all().contains { $0.mountpoint == mount.path } })
            for reader in readers { reader.thread?.join() }
        }
    }

    @Test("umount ends the session")
    func unmounted() throws {
        try withMount(["film": MemoryFile(node: 2, length: 100)]) { mount in
            var status = stat()
            #expect(stat(mount.file("film"), &status) == 0)
            #expect(unmount(mount.path))
            #expect(mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
            #expect(!Mount.all().contains { $0.mountpoint == mount.path })
        }
    }

    @Test("umount -l with an open file: it reads on, and its close ends the session")
    func lazilyUnmounted() throws {
        let file = MemoryFile(node: 2, length: 100)
        try withMount(["film": file]) { mount in
            let descriptor = open(mount.file("film"), O_RDONLY | O_CLOEXEC)
            #expect(umount2(mount.path, Int32(MNT_DETACH)) == 0)
            #expect(readFile(descriptor, at: 0, count: 100) == file.bytes(0..<100))
            #expect(!mount.hasEnded.withLock { $0 })
            close(descriptor)
            #expect(mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
        }
    }

    @Test("Opening, reading and closing race with the end of the mount", arguments: 0..<5)
    func races(round: Int) throws {
        let files = [
            "hit": MemoryFile(node: 2, length: 300_000),
            "parked": MemoryFile(node: 3, length: 300_000, reading: .parked),
        ]
        try withMount(files) { mount in
            let rounds = Monitor(0)
            let wrong = Monitor(0)
            let isOver = Monitor(false)
            let threads = (0..<6).map { number in
                Thread("racer") {
                    let name = number % 2 == 0 ? "hit" : "parked"
                    let expected = files[name]!.bytes(0..<300_000)
                    while !isOver.withLock({ $0 }) {
                        let descriptor = open(mount.file(name), O_RDONLY | O_CLOEXEC)
                        guard descriptor >= 0 else { break }
                        let bytes = readFile(descriptor, at: 0, count: 300_000)
                        close(descriptor)
                        // An error is fair once the mount ends; other bytes or fewer never are.
                        if let bytes, bytes != expected { wrong.withLock { $0 += 1 } }
                        rounds.withLock { $0 += 1 }
                    }
                }
            }
            #expect(rounds.wait(atMost: .seconds(10)) { $0 > round * 5 ? true : nil } == true)
            mount.session.stop()
            isOver.withLock { $0 = true }
            for thread in threads { thread?.join() }
            #expect(wrong.withLock { $0 } == 0)
        }
    }
}
