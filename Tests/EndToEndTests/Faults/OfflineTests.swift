import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Promise 5: offline is a normal state.
    @Suite(.plainAndEncrypted) struct OfflineTests {
        @Test("Without its server a mount starts, lists, plays what is complete, and fails promptly in what is not")
        func withoutServer() throws {
            let whole = FileOrigin(length: 3 << 20 + 7, seed: 1)
            let half = FileOrigin(length: 24 << 20, seed: 2)
            let unseen = FileOrigin(length: 5_000, seed: 3)
            let server = try folderServer(["half.mkv": half, "unseen.mkv": unseen, "whole.mkv": whole])
            defer { server.stop() }
            try withScene { scene in
                var mount = try scene.mount(server.address, Self.patient)
                #expect(whole.difference(inFile: mount.file("whole.mkv")) == nil)
                _ = try OpenDescriptor(mount.file("half.mkv")).bytes(at: 0, count: 4096)
                try mount.unmount()
                server.stop()

                mount = try quickly("mount") { try scene.mount(server.address, Self.patient) }
                try quickly("ls, stat and df") { () throws -> Void in
                    #expect(try names(in: mount.path) == ["half.mkv", "unseen.mkv", "whole.mkv"])
                    #expect(try attributes(mount.file("half.mkv")).st_size == 24 << 20)
                    #expect(try attributes(mount.file("unseen.mkv")).st_size == 5_000)
                    var space = statvfs()
                    #expect(statvfs(mount.path, &space) == 0)
                    #expect(try ChildProcess.run(["ls", "-l", mount.path]).status == 0)
                }
                try quickly("a complete file") {
                    #expect(whole.difference(inFile: mount.file("whole.mkv")) == nil)
                }
                try quickly("a missing part") {
                    let file = try OpenDescriptor(mount.file("half.mkv"))
                    #expect(try file.bytes(at: 0, count: 4096) == half.expectedBytes(ByteRange(0, 4096)))
                    #expect(throws: SystemFailure("pread", ENETUNREACH)) { try file.bytes(at: 12 << 20, count: 4096) }
                }
                try quickly("a file never read") {
                    #expect([EIO, ENETUNREACH].contains(readingCode(mount.file("unseen.mkv"))))
                }
                #expect(try names(in: mount.path).count == 3)
            }
        }

        @Test("A server that goes while mounted takes nothing away but what is missing")
        func serverGoes() throws {
            let whole = FileOrigin(length: 3 << 20 + 7, seed: 1)
            let unseen = FileOrigin(length: 5_000, seed: 3)
            let server = try folderServer(["unseen.mkv": unseen, "whole.mkv": whole])
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address, Self.patient)
                #expect(whole.difference(inFile: mount.file("whole.mkv")) == nil)
                server.stop()
                mount.dropPages("whole.mkv")
                try quickly("a complete file") {
                    #expect(whole.difference(inFile: mount.file("whole.mkv")) == nil)
                }
                try quickly("a file never read") {
                    #expect([EIO, ENETUNREACH].contains(readingCode(mount.file("unseen.mkv"))))
                }
                #expect(try names(in: mount.path).count == 2)
            }
        }

        @Test(
            "All of it cached and the origin away, also after a remount or a crash: right bytes, no request",
            arguments: [false, true], Shape.tried)
        func cached(_ isCrash: Bool, _ shape: Shape) throws {
            // How the blocks are kept is below all shapes.
            if CacheKind.isEncrypted, shape != .twoAtOnce { return }
            let film = FileOrigin(length: 5 << 20 + 3)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
                var mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.inOrder, mount.file("film.mkv"), film.version).expectRight()
                let count = server.fileRequests.count
                server.stop()
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("away:")
                if isCrash {
                    #expect(eventually { CacheFolder(path: scene.cache).committedBlocks == 41 }, "not committed")
                    mount.crash()
                } else {
                    try mount.unmount()
                }
                mount = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(shape, mount.file("film.mkv"), film.version).expectRight("remounted:")
                #expect(server.fileRequests.count == count)
            }
        }

        private static let patient = ["--timeout", "120"]

        /// Long before the deadline: where packets are refused there is nothing to wait for.
        private func quickly<Value>(_ what: String, _ body: () throws -> Value) throws -> Value {
            let start = ContinuousClock.now
            defer { #expect(ContinuousClock.now - start < .seconds(40), "\(what)") }
            return try body()
        }
    }
}
