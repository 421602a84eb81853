import ReelCore
import ReelFilesystem
import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// Files that stand for symbolic links.
@Suite struct LinkFileTests {
    @Test(arguments: [
        ("a.mkv", 0, true), ("films/a.mkv", 0, true), ("./a.mkv", 0, true), ("../a.mkv", 1, true),
        (".././../a", 2, true),
        ("a..b/..c", 0, true), ("films//a.mkv", 0, true), (".", 0, true), ("../a.mkv", 0, false), ("../../a", 1, false),
        ("films/../a.mkv", 3, false), ("./../a", 0, false), ("/a", 3, false), ("", 3, false), ("a\0", 3, false),
    ])
    func onlyTheBeginningOfATargetGoesUpAndNeverAboveTheRoot(text: String, depth: Int, leads: Bool) {
        #expect(LinkFile.target(Array(text.utf8), depth: depth) == (leads ? text : nil))
    }

    @Test func aTargetIsNoLongerThanAPathAndIsText() {
        #expect(LinkFile.target([UInt8](repeating: 0x61, count: 4095), depth: 0) != nil)
        #expect(LinkFile.target([UInt8](repeating: 0x61, count: 4096), depth: 0) == nil)
        #expect(LinkFile.target([0x61, 0xFF], depth: 0) == nil)
    }

    private struct Caller: KernelCaller {
        let filesystem: any Filesystem
    }

    @Test("A view of what is cached reads a link from the cache, and never asks for one")
    func cachedOnly() throws {
        let page =
            "<title>Index of /</title><pre>"
            + ["a", "b"].map { "<a href=\"\($0).rclonelink\">\($0).rclonelink</a> 21-Nov-2026 10:00 8\n" }.joined()
        let server = try ScriptedServer { request in
            let isPage = request.path == "/"
            let head = [("Content-Type", isPage ? "text/html" : "text/plain"), ("ETag", "\"1\"")]
            return ServerStep.answer(200, head, body: isPage ? page : "film.mkv")
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, links: true)
        defer { fixture.remove() }
        let volume = fixture.volume
        let link = try fixture.lookup("a").get().node
        #expect(fixture.wait { volume.readLink(link, $0) } == .success("film.mkv"))
        // As after some seconds: an open asks whether it is still the same.
        volume.services.doubt(server.url("/a.rclonelink"))
        let before = server.requests.count
        let caller = Caller(filesystem: CachedView(volume))
        let cached = try caller.lookup("a").get().node
        #expect(caller.wait { caller.filesystem.readLink(cached, $0) } == .success("film.mkv"))
        let unknown = try fixture.lookup("b").get().node
        #expect(caller.wait { caller.filesystem.readLink(unknown, $0) } == .failure(.offline))
        #expect(server.requests.count == before)
    }

    private func entry(_ name: String, _ path: String, length: Int64? = 5, isDirectory: Bool = false) -> SourceEntry {
        let url = ResourceURL("http://h/films/")!.resolve(path)!
        return SourceEntry(name: name, url: url, isDirectory: isDirectory, length: length)
    }

    @Test func anEntryHasTheNameOfItsLinkUnlessAFileHasIt() {
        let entries = [
            entry("a b.mkv.rclonelink", "a%20b.mkv.rclonelink"), entry("c.mkv", "c.mkv"),
            entry("c.mkv.rclonelink", "c.mkv.rclonelink"), entry("d.rclonelink", "d.rclonelink", length: nil),
            entry("e.rclonelink", "e.rclonelink", length: 4096), entry(".rclonelink", ".rclonelink"),
            entry("f.rclonelink", "f.rclonelink/", isDirectory: true),
            // A title, not the name of its file.
            entry("g", "h.rclonelink"),
        ]
        let list = EntryList(entries)
        #expect(list.namingLinks(false) == list)
        let named = list.namingLinks(true)
        let names = [
            "a b.mkv", "c.mkv", "c.mkv.rclonelink", "d", "e.rclonelink", ".rclonelink", "f.rclonelink", "g",
        ]
        #expect(named.map(\.name) == names)
        #expect(named.indices.filter { named.isLink(at: $0) } == [0, 3])
        // What a cache remembers under such names is what the source has.
        #expect(named.map(\.unlinked) == entries)
        #expect(EntryList(named.map(\.unlinked)).namingLinks(true) == named)
    }
}
