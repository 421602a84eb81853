import CLinux
import Glibc
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

/// Linux 6.9 and libfuse 3.13 with a root of the first user namespace: there it must work.
let passthroughIsUsable: Bool = {
    var name = utsname()
    guard fuseIsUsable, libraryHasPassthrough, geteuid() == 0, uname(&name) == 0 else { return false }
    let release = withUnsafeBytes(of: &name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    let map = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC)
    defer { close(map) }
    let fields = String(decoding: readFile(map, at: 0, count: 100) ?? [], as: UTF8.self).split { $0.isWhitespace }
    return numbers.count == 2 && (numbers[0], numbers[1]) >= (6, 9) && fields == ["0", "0", "4294967295"]
}()

/// Counts what is registered with the kernel, and refuses as `refusals` says.
final class Registrations: Sendable {
    struct State: Sendable {
        var opened = 0
        var closed = 0
        /// What the next registrations come to instead of a number.
        var refusals: [Int32] = []
    }

    let state = Monitor(State())

    var calls: BackingCalls {
        BackingCalls(
            open: { [state] device, file in
                let refusal = state.withLock { $0.refusals.isEmpty ? nil : $0.refusals.removeFirst() }
                state.withLock { $0.opened += 1 }
                return refusal.map { -$0 } ?? BackingCalls.kernel.open(device, file)
            },
            close: { [state] device, number in
                state.withLock { $0.closed += 1 }
                BackingCalls.kernel.close(device, number)
            })
    }
}

/// A mount with one file, `film`, whose bytes also stand in a file on the disk.
struct PassthroughFixture {
    static let length: Int64 = 3_000_017

    var mount: MountFixture
    var registrations: Registrations
    var film: MemoryFile
    var backing: String

    var path: String { mount.file("film") }
    var reads: Int { mount.filesystem.state.withLock { $0.reads } }
    var began: Int { mount.filesystem.state.withLock { $0.began } }
    var opened: Int { registrations.state.withLock { $0.opened } }

    /// The file becomes complete, or is so no longer.
    func offer(_ path: String?) { mount.filesystem.state.withLock { $0.files["film"]!.backing = path } }

    /// Releases follow close(2) without anybody waiting for them.
    func areClosed(but count: Int = 0) -> Bool {
        eventually { mount.filesystem.state.withLock { $0.openHandles } == count }
    }

    /// Opens, reads all, compares, closes.
    func isRight(flags: Int32 = 0) -> Bool {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | flags)
        defer { close(descriptor) }
        return readFile(descriptor, at: 0, count: Int(film.length) + 4096) == film.bytes(0..<film.length)
    }
}

func write(_ bytes: [UInt8], to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    var done = 0
    while done < bytes.count {
        let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + done, bytes.count - done) }
        try #require(count > 0)
        done += count
    }
}

/// - Parameter directory: where the file on the disk is made, and what the mount gets as `backingDirectory` if `told`
///   is nil; nil for a directory in /tmp.
func withPassthrough(
    directory: String? = nil, told: String? = nil, isComplete: Bool = true, _ body: (PassthroughFixture) throws -> Void
) throws {
    try withTemporaryDirectory { temporary in
        let directory = directory ?? temporary
        let backing = directory + "/object"
        defer { unlink(backing) }
        var film = MemoryFile(node: 2, length: PassthroughFixture.length)
        try write(film.bytes(0..<film.length), to: backing)
        if isComplete { film.backing = backing }
        let registrations = Registrations()
        let change: (inout FuseSession.Options) -> Void = { options in
            options.backingDirectory = told ?? directory
            options.backingCalls = registrations.calls
        }
        try withMount(["film": film], options: change) { mount in
            try body(PassthroughFixture(mount: mount, registrations: registrations, film: film, backing: backing))
        }
    }
}
