import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// `reelfs prefetch`, `offline` and `limit-rate` on a mount.
    @Suite struct PrefetchTests {
        private static let length: Int64 = 4 << 20 + 7

        private func withFilms(
            _ options: [String] = [], _ body: (Scene, ScriptedServer, [String: FileOrigin], Mounted) throws -> Void
        ) throws {
            try withThreeFilms(of: Self.length, options, body)
        }

        private func run(_ words: String...) throws -> ChildProcess.End { try ChildProcess.run([program] + words) }

        @Test("What was fetched before plays without its server, and is not fetched again")
        func fetches() throws {
            try withFilms { (_, server, films, mount) throws in
                let end = try run("prefetch", mount.path)
                #expect(end.status == 0 && end.output == "3 files in the cache, 12.0 MiB.\n", "\(end)")
                let count = server.fileRequests.count
                #expect(try run("prefetch", "--pin", mount.file("a.mkv"), mount.path).status == 0)
                #expect(server.fileRequests.count == count)
                let status = try run("status", mount.path).output
                #expect(status.contains("prefetch /: done, 3 files"), "\(status)")
                server.stop()
                for (name, film) in films { #expect(film.difference(inFile: mount.file(name)) == nil, "\(name)") }
            }
        }

        @Test("What the cache cannot hold is refused with the numbers")
        func refused() throws {
            try withFilms(["--cache-size", "10M"]) { (_, server, _, mount) throws in
                let end = try run("prefetch", mount.path)
                #expect(end.status == 32)
                // A part of it is the index's.
                #expect(end.errors.contains("3 files of 12.0 MiB do not fit into the cache, which holds 9.9"), "\(end)")
                #expect(server.fileRequests.isEmpty)
                #expect(try run("prefetch", "--pin", mount.file("a.mkv")).status == 0)
                let second = try run("prefetch", mount.file("b.mkv"), mount.file("c.mkv"))
                #expect(
                    second.status == 32 && second.errors.contains("4.0 MiB of it in other pinned files"), "\(second)")
            }
        }

        @Test("One whose origin is away says so, and ends with an error where nobody would end it")
        func away() throws {
            try withFilms { (_, server, _, mount) throws in
                #expect(try names(in: mount.path) == ["a.mkv", "b.mkv", "c.mkv"])
                server.stop()
                let end = try run("prefetch", "--timeout", "1", mount.path)
                #expect(end.status == 32, "\(end)")
                let lines = end.errors.split(separator: "\n")
                #expect(lines.first?.hasPrefix("fetching: waiting: ") == true, "\(end)")
                #expect(lines.last?.hasPrefix("reelfs: nothing came for 1 s: ") == true, "\(end)")
                #expect(try run("prefetch", "--timeout", "soon", mount.path).status == 1)
            }
        }

        @Test("One in the background outlives its command, and is cancelled by another; one in front ends with its own")
        func background() throws {
            try withFilms { (_, _, films, mount) throws in
                let begun = try run("prefetch", "--background", "--limit-rate", "500K", mount.path)
                #expect(begun.status == 0 && begun.output.contains(" of 3 files in the background"), "\(begun)")
                let status = { try run("status", mount.path).output }
                #expect(eventually { (try? status().contains("prefetch /: 0 of 3 files")) == true })
                #expect(try run("prefetch", "--cancel", mount.file("a.mkv")).status == 32)
                #expect(try run("prefetch", "--cancel", mount.path).status == 0)
                #expect(eventually { (try? status().contains("prefetch /: cancelled")) == true })
                let watched = try ChildProcess([program, "prefetch", "--limit-rate", "500K", mount.path])
                #expect(eventually { (try? status().contains("prefetch /: 0 of 3 files")) == true })
                watched.signal(SIGINT)
                _ = try watched.wait()
                #expect(eventually { (try? status().components("cancelled")) == 2 })
                #expect(try run("prefetch", mount.path).status == 0)
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
            }
        }

        @Test("Offline only whole files are seen, also after a remount, and at once; back on all is there again")
        func offline() throws {
            try withFilms { (scene, server, films, first) throws in
                var mount = first
                #expect(try names(in: mount.path) == ["a.mkv", "b.mkv", "c.mkv"])
                #expect(try run("prefetch", mount.file("b.mkv")).status == 0)
                #expect(try attributes(mount.file("a.mkv")).st_size == Self.length)
                var count = 0
                do {
                    let open = try OpenDescriptor(mount.file("c.mkv"))
                    #expect(try run("offline", "on", mount.path).status == 0)
                    count = server.requests.count
                    var byte: UInt8 = 0
                    #expect(code { pread(open.number, &byte, 1, 2 << 20) } == ENETUNREACH)
                }
                for isRemounted in [false, true] {
                    if isRemounted {
                        try mount.unmount()
                        mount = try scene.mount(server.address)
                    }
                    #expect(try names(in: mount.path) == ["b.mkv"])
                    #expect(code { Int(access(mount.file("a.mkv"), F_OK)) } == ENOENT)
                    #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
                    #expect(try run("status", mount.path).output.contains("offline by command"))
                }
                #expect(server.requests.count == count)
                #expect(try run("offline", "off", mount.path).status == 0)
                // The kernel is told on a thread of its own, and has the name as missing until then.
                #expect(eventually { code { Int(access(mount.file("a.mkv"), F_OK)) } == 0 })
                #expect(try names(in: mount.path) == ["a.mkv", "b.mkv", "c.mkv"])
                #expect(films["a.mkv"]!.difference(inFile: mount.file("a.mkv")) == nil)
            }
        }

        @Test("A limit of the rate holds, and a command changes it while mounted")
        func limit() throws {
            try withFilms(["--limit-rate", "1M"]) { (_, _, films, mount) throws in
                let start = ContinuousClock.now
                #expect(films["a.mkv"]!.difference(inFile: mount.file("a.mkv")) == nil)
                #expect(ContinuousClock.now - start > .seconds(3))
                #expect(try run("status", mount.path).output.contains("limit   1M"))
                #expect(try run("limit-rate", "08:00,2X", mount.path).status == 1)
                // With this one it would take two minutes.
                #expect(try run("limit-rate", "32K", mount.path).status == 0)
                #expect(try run("limit-rate", "off", mount.path).status == 0)
                let second = ContinuousClock.now
                #expect(films["b.mkv"]!.difference(inFile: mount.file("b.mkv")) == nil)
                #expect(ContinuousClock.now - second < .seconds(40))
                #expect(!(try run("status", mount.path).output.contains("limit ")))
            }
        }
    }
}

extension String {
    /// How often it has a word.
    fileprivate func components(_ word: String) -> Int { split(separator: " ").count { $0.hasPrefix(word) } }
}
