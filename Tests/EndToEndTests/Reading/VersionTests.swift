import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// One version, never two mixed. The volume asks again after five seconds (`Volume.freshFor`): the tests open until
    /// the change shows.
    @Suite struct VersionTests {
        private static let old = FileOrigin.Version(seed: 1, length: 3 << 20 + 100)

        private static func new(length: Int64) -> FileOrigin.Version {
            FileOrigin.Version(seed: 2, length: length, entityTag: "\"v2\"", lastModified: 1_700_009_000)
        }

        /// All in one mount, so that the five seconds are waited for once.
        @Test("A changed file is seen whole by a new open, also through the page cache")
        func changed() throws {
            let lengths: [Int64] = [3 << 20 + 100, 4 << 20 + 1, 1 << 20 + 3, 0]
            let films = lengths.map { _ in FileOrigin(Self.old) }
            let server = try folderServer(
                Dictionary(uniqueKeysWithValues: zip(lengths, films).map { ("\($0).mkv", $1) }))
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address)
                let old = films[0].whole
                for (length, film) in zip(lengths, films) {
                    #expect(film.difference(inFile: mount.file("\(length).mkv")) == nil)
                }
                for (length, film) in zip(lengths, films) { film.change(to: Self.new(length: length)) }
                for (length, film) in zip(lengths, films) {
                    let path = mount.file("\(length).mkv")
                    let new = film.whole
                    let isNew = eventually(within: .seconds(20)) {
                        guard let bytes = try? readWhole(path) else { return false }
                        if bytes != new, bytes != old { Issue.record("\(bytes.count) bytes of neither version") }
                        return bytes == new
                    }
                    #expect(isNew, "\(length)")
                    let shown = try attributes(path)
                    #expect(Int64(shown.st_size) == length)
                    guard length > 0 else { continue }
                    try OpenDescriptor(path).mapped { bytes in #expect(bytes.elementsEqual(new)) }
                }
            }
        }

        @Test(
            "A file that has another length than the listing said is read whole, and the mount goes on",
            arguments: [100_000, 1 << 20, 5 << 20] as [Int64])
        func otherThanListed(_ length: Int64) throws {
            let film = FileOrigin(Self.old)
            try withMount(of: film) { scene, server, mount in
                let path = mount.file("film.mkv")
                let listed = try attributes(path)
                #expect(Int64(listed.st_size) == Self.old.length)
                film.change(to: Self.new(length: length))
                #expect(film.difference(inFile: path) == nil)
                let shown = try attributes(path)
                #expect(Int64(shown.st_size) == length)
                #expect(isRunning(mount.pid))
            }
        }

        @Test("After the first ESTALE the next open has the new version", arguments: [24 << 20, 20 << 20] as [Int64])
        func nextOpen(_ length: Int64) throws {
            let film = FileOrigin(FileOrigin.Version(seed: 1, length: 24 << 20))
            try withMount(of: film) { scene, server, mount in
                let path = mount.file("film.mkv")
                let old = try OpenDescriptor(path)
                _ = try old.bytes(at: 0, count: 4096)
                film.change(to: Self.new(length: length))
                #expect(throws: SystemFailure("pread", ESTALE)) { try old.bytes(at: 12 << 20, count: 4096) }
                #expect(film.difference(inFile: path) == nil)
            }
        }

        @Test("An old handle gets the old bytes or ESTALE", arguments: [false, true])
        func oldHandle(_ isNewOpened: Bool) throws {
            let film = FileOrigin(FileOrigin.Version(seed: 1, length: 24 << 20))
            try withMount(of: film) { scene, server, mount in
                let path = mount.file("film.mkv")
                let old = try OpenDescriptor(path)
                let oldVersion = film.version
                _ = try old.bytes(at: 0, count: 4096)
                film.change(to: Self.new(length: 24 << 20))
                if isNewOpened {
                    let isNew = eventually(within: .seconds(20)) {
                        guard let file = try? OpenDescriptor(path), let bytes = try? file.bytes(at: 0, count: 4096)
                        else { return false }
                        return bytes == film.expectedBytes(ByteRange(0, 4096))
                    }
                    #expect(isNew)
                }
                for offset: Int64 in [0, 4096, 300_000, 12 << 20, 24 << 20 - 5000] {
                    do throws(SystemFailure) {
                        let bytes = try old.bytes(at: offset, count: 4096)
                        #expect(
                            bytes.elementsEqual(oldVersion.bytes.bytes(ByteRange(offset, offset + 4096))),
                            "at \(offset)")
                    } catch {
                        #expect(error.number == ESTALE, "at \(offset)")
                    }
                }
                // What the origin no longer has can only be an error.
                #expect(throws: SystemFailure("pread", ESTALE)) { try old.bytes(at: 6 << 20, count: 4096) }
            }
        }

        @Test("A weak tag that turns strong is no change: nothing is fetched again")
        func weakTag() throws {
            let weak = FileOrigin.Version(seed: 1, length: 3 << 20, entityTag: "W/\"same\"")
            let film = FileOrigin(weak)
            try withMount(of: film) { scene, server, mount in
                let path = mount.file("film.mkv")
                #expect(film.difference(inFile: path) == nil)
                let before = server.fileRequests.count
                var strong = weak
                strong.entityTag = "\"same\""
                film.change(to: strong)
                let isAsked = eventually(within: .seconds(20)) {
                    (try? OpenDescriptor(path)) != nil && server.fileRequests.count > before
                }
                #expect(isAsked)
                mount.dropPages("film.mkv")
                #expect(film.difference(inFile: path) == nil)
                for request in server.fileRequests[before...] {
                    #expect(request.range(of: weak.length)?.count == 1, "\(request.headers)")
                }
            }
        }
    }
}
