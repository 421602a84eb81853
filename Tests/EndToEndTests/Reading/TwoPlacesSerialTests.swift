import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Where readers of two places wait at the same time, a request that one waits for may take the connection of one
    /// ahead of the other, and what is on its way there is lost. On a quiet machine none has to, so this test runs
    /// alone.
    @Suite struct TwoPlacesSerialTests {
        @Test("Two places of one file are read at once, and nothing twice")
        func twoPlaces() throws {
            let film = FileOrigin(length: 24 << 20)
            try withMount(of: film) { scene, server, mount in
                _ = try names(in: mount.path)
                let before = server.bodyBytesSent
                let readers = try [0, 12].map { start in
                    let words = ["bs=1M", "skip=\(start)", "count=12", "if=\(mount.file("film.mkv"))"]
                    return try ChildProcess(["dd", "of=\(scene.work("part\(start)"))"] + words)
                }
                for reader in readers { #expect(try reader.wait().status == 0) }
                let parts = try [0, 12].flatMap { try readWhole(scene.work("part\($0)")) }
                #expect(film.difference(from: parts) == nil)
                #expect(server.bodyBytesSent(atLeast: before + film.length) - before == film.length)
            }
        }
    }
}
