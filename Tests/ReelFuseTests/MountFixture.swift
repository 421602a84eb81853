import Glibc
import Logging
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

struct MountFixture {
    var path: String
    var filesystem: MemoryFilesystem
    var session: FuseSession
    /// True once `session.wait` has returned.
    var hasEnded: Monitor<Bool>

    func file(_ name: String) -> String { path + "/" + name }
}

/// Mounts `files`, runs `body`, ends the mount. A watchdog tears the mount down when a test hangs: its own calls then
/// fail instead of sleeping forever.
func withMount(
    _ files: [String: MemoryFile], ownership: Ownership = Ownership(user: 0, group: 0),
    options change: (inout FuseSession.Options) -> Void = { _ in },
    _ body: (MountFixture) throws -> Void
) throws {
    try withTemporaryDirectory { path in
        let filesystem = MemoryFilesystem(files)
        let late = filesystem.answerLate()
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        var options = FuseSession.Options(source: #"http://h/a, b\c d"#, mountpoint: path, ownership: ownership)
        change(&options)
        let session = try FuseSession(filesystem, options: options, logger: logger)
        let isOver = Monitor(false)
        let watchdog = Thread("watchdog") {
            if isOver.wait(atMost: .seconds(20), { $0 ? true : nil }) == nil {
                umount2(path, Int32(MNT_FORCE | MNT_DETACH))
                session.stop()
            }
        }
        let ended = Monitor(false)
        try session.start()
        let waiter = Thread("waiter") {
            session.wait()
            ended.withLock { $0 = true }
        }
        defer {
            session.stop()
            waiter?.join()
            filesystem.state.withLock { $0.isOver = true }
            late?.join()
            isOver.withLock { $0 = true }
            watchdog?.join()
        }
        try body(MountFixture(path: path, filesystem: filesystem, session: session, hasEnded: ended))
    }
}

/// The errno of a call that says -1 when it fails; 0 where it does not.
func code(_ call: () -> Int) -> Int32 {
    errno = 0
    return call() < 0 ? errno : 0
}

func readFile(_ descriptor: Int32, at offset: Int, count: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0xEE, count: count)
    var done = 0
    while done < count {
        let got = bytes.withUnsafeMutableBytes {
            pread(descriptor, $0.baseAddress! + done, count - done, off_t(offset + done))
        }
        if got < 0 { return nil }
        if got == 0 { break }
        done += got
    }
    return Array(bytes[..<done])
}

/// Some names, none at the end: a program with a buffer that holds fewer than the kernel asks for.
func nextNames(_ folder: Int32) throws -> [String] {
    // Swift's module of the C library leaves it out.
    typealias Function = @convention(c) (Int32, UnsafeMutableRawPointer, Int) -> Int
    let getdents64 = unsafeBitCast(try #require(dlsym(nil, "getdents64")), to: Function.self)
    var buffer = [UInt8](repeating: 0, count: 512)
    let count = getdents64(folder, &buffer, buffer.count)
    try #require(count >= 0)
    var names: [String] = []
    var start = 0
    while start < count {
        // struct linux_dirent64: two numbers of 8 bytes, the record's length in 2, a type in 1, the name.
        let length = Int(buffer[start + 16]) | Int(buffer[start + 17]) << 8
        names.append(String(decoding: buffer[start + 19..<start + length].prefix { $0 != 0 }, as: UTF8.self))
        start += length
    }
    return names
}
