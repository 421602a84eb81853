import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// A file looks the same while it is the same: size, date and number as they were shown first, whatever is cached, and
/// through refreshes, remounts and outages.
@Suite struct LookTests {
    /// How a listing names a file of 2 MB that was changed at 22:13:20.
    enum Format: CaseIterable, Sendable {
        /// nginx, Caddy: exact lengths, dates to the minute.
        case minutes
        /// nginx's JSON.
        case seconds
        /// nginx with `autoindex_localtime on`.
        case localTime
        /// Apache, lighttpd.
        case rounded
        /// darkhttpd.
        case undated
        /// Python.
        case names

        func page(_ version: FileOrigin.Version) -> (type: String, text: String) {
            let date = version.lastModified! + (self == .localTime ? 7200 : 0)
            if self == .seconds {
                let file =
                    #"{"name":"film.mkv","type":"file","mtime":"\#(httpDateText(date))","size":\#(version.length)}"#
                return ("application/json", "[\(file)]")
            }
            let words = httpDateText(date).split(separator: " ")
            let minute = "\(words[1])-\(words[2])-\(words[3]) \(words[4].prefix(5))"
            let facts =
                switch self {
                case .rounded: "\(minute)  \(version.length >> 20)M"
                case .undated: "\(version.length)"
                case .names: ""
                default: "\(minute)  \(version.length)"
                }
            let table = "<tr><td><a href=\"film.mkv\">film.mkv</a></td><td>\(facts)</td></tr>"
            let line = "<a href=\"film.mkv\">film.mkv</a>      \(facts)\n"
            return (
                "text/html",
                "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                    + "\(self == .undated ? table : line)</pre></html>"
            )
        }
    }

    private func withFilm(
        _ format: Format, _ body: (VolumeFixture, FileOrigin, Shared<FileOrigin.Version>, ScriptedServer) throws -> Void
    ) throws {
        let film = FileOrigin(length: 2_000_000)
        let listed = Shared(film.version)
        let server = try ScriptedServer { request in
            guard request.path == "/" else { return film.answer(request) }
            let page = format.page(listed.value)
            return ServerStep.answer(200, [("Content-Type", page.type)], body: page.text)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), refresh: .zero)
        defer { fixture.remove() }
        try body(fixture, film, listed, server)
    }

    private struct Look: Equatable {
        var length: Int64
        var modified: Int64
        var inode: UInt64
    }

    private func look(_ fixture: VolumeFixture) throws -> Look {
        let entry = try fixture.lookup("film.mkv").get()
        let again = try fixture.wait { fixture.volume.attributes(of: entry.node, $0) }.get()
        #expect(again == entry.attributes)
        return Look(length: again.length, modified: again.modified, inode: again.inode)
    }

    private func forget(_ fixture: VolumeFixture) throws {
        let entry = try fixture.lookup("film.mkv").get()
        fixture.volume.forget(entry.node, count: .max)
    }

    private func readWhole(_ fixture: VolumeFixture, _ film: FileOrigin) throws {
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, film.version.length))
        fixture.volume.close(file)
    }

    /// A listing that was asked for after this is there when it returns.
    private func refresh(_ fixture: VolumeFixture, _ server: ScriptedServer) {
        let before = server.requests.count { $0.path == "/" }
        #expect(
            eventually {
                _ = fixture.names()
                return server.requests.count { $0.path == "/" } >= before + 3
            })
    }

    @Test(arguments: Format.allCases) func aFileLooksTheSameWhileItIsTheSame(_ format: Format) throws {
        try withFilm(format) { fixture, film, _, server in
            let first = try look(fixture)
            #expect(first.length == 2_000_000)
            try readWhole(fixture, film)
            #expect(try look(fixture) == first, "read")
            try forget(fixture)
            #expect(try look(fixture) == first, "forgotten")
            refresh(fixture, server)
            #expect(try look(fixture) == first, "refreshed")
            fixture.expire()
            try readWhole(fixture, film)
            #expect(try look(fixture) == first, "confirmed")
            try fixture.restart()
            #expect(try look(fixture) == first, "mounted again")
            try readWhole(fixture, film)
            #expect(try look(fixture) == first, "mounted again and read")
            server.stop()
            try fixture.restart()
            #expect(try look(fixture) == first, "offline")
            try readWhole(fixture, film)
            try forget(fixture)
            #expect(try look(fixture) == first, "offline and read")
        }
    }

    /// It is the open that finds out, and the listing that follows says the same: with dates to the minute.
    @Test(
        arguments: Format.allCases, LongTests.all([2_000_000, 3_000_000, 1_000_000], elseOnly: [3_000_000]) as [Int64])
    func aFileThatChangedLooksOtherAndThenTheSame(_ format: Format, _ length: Int64) throws {
        // Its listing gives no date that could be shown before an answer comes.
        guard format != .undated else { return }
        try withFilm(format) { fixture, film, listed, server in
            let first = try look(fixture)
            try readWhole(fixture, film)
            film.change(to: .init(seed: 7, length: length, entityTag: "\"v2\"", lastModified: 1_700_009_015))
            fixture.expire()
            try readWhole(fixture, film)
            let second = try look(fixture)
            #expect(second.length == length && second.modified != first.modified && second.inode == first.inode)
            listed.set(film.version)
            refresh(fixture, server)
            let shown = try look(fixture)
            // Another time zone is seen by the listing alone.
            #expect(shown == second || format == .localTime)
            try forget(fixture)
            #expect(try look(fixture) == shown, "forgotten")
            try fixture.restart()
            #expect(try look(fixture) == shown, "mounted again")
            try readWhole(fixture, film)
            #expect(try look(fixture) == shown, "read")
        }
    }

    /// Without an open: the listing alone shows it, and if it gives no length the origin is asked.
    @Test(arguments: [Format.minutes, .seconds, .localTime, .rounded])
    func aFileThatIsListedAnewLooksOtherWithoutAnOpen(_ format: Format) throws {
        try withFilm(format) { fixture, film, listed, server in
            let first = try look(fixture)
            try readWhole(fixture, film)
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            film.change(to: .init(seed: 7, length: 2_000_000, entityTag: "\"v2\"", lastModified: 1_700_009_015))
            listed.set(film.version)
            refresh(fixture, server)
            #expect(eventually { (try? look(fixture))?.modified ?? first.modified > first.modified + 8000 })
            #expect(eventually { kernel.forgotten.withLock { $0.contains("film.mkv") } })
            // What was confirmed a moment ago is in doubt by now: the next open asks.
            try readWhole(fixture, film)
        }
    }

    @Test(
        arguments: [
            (0, 59, true), (0, 60, false), (35, 0, true), (35, 36, false), (-60, -1, true), (-1, 0, false),
            (60, 61, true),
        ] as [(Int64, Int64, Bool)])
    func aDateWithoutSecondsIsOneToTheMinute(_ shown: Int64, _ told: Int64, _ isSame: Bool) {
        let facts = Node.Facts(length: 5, modified: shown)
        #expect(facts.agrees(with: Node.Facts(length: 5, modified: told)) == isSame)
        #expect(!facts.agrees(with: Node.Facts(length: 6, modified: told)))
        #expect(!facts.agrees(with: Node.Facts(length: nil, modified: told)))
    }
}
