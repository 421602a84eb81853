import ReelCore
import TestKit
import Testing

@testable import ReelVolume

@Suite struct FolderContentsTests {
    private func contents(_ fixture: VolumeFixture, _ query: FolderQuery) throws -> FolderContents {
        try fixture.volume.maintenance.contents(query, until: { false })
    }

    @Test func aFolderShowsWhatIsListedAndCachedWithoutARequest() throws {
        try withFilms { fixture, films, server in
            try readWhole(fixture, "sub/c.mkv", try #require(films["/sub/c.mkv"]))
            _ = try fixture.volume.maintenance.pin("sub/d.mkv", true)
            let requests = server.requests.count
            let root = try contents(fixture, FolderQuery(path: ""))
            #expect(root.entries.map(\.path) == ["sub", "a.mkv", "b.mkv"])
            #expect(root.entries.map(\.isDirectory) == [true, false, false] && !root.isCut)
            let sub = try contents(fixture, FolderQuery(path: "sub/"))
            #expect(sub.entries.map(\.path) == ["sub/c.mkv", "sub/d.mkv"])
            #expect(sub.entries.map(\.cachedBytes) == [5 << 20 + 77, 0] as [Int64])
            #expect(sub.entries.map(\.isPinned) == [false, true])
            #expect(server.requests.count == requests)
        }
    }

    @Test func aSearchLooksBelowAndIsBounded() throws {
        try withFilms { fixture, films, _ in
            _ = try fixture.lookup("a.mkv").get()
            let early = try contents(fixture, FolderQuery(path: "", match: "MKV"))
            #expect(early.entries.map(\.path) == ["a.mkv", "b.mkv"] && early.unlistedDirectories == 1)
            try readWhole(fixture, "sub/c.mkv", try #require(films["/sub/c.mkv"]))
            let all = try contents(fixture, FolderQuery(path: "", match: "MKV"))
            #expect(all.entries.map(\.path) == ["a.mkv", "b.mkv", "sub/c.mkv", "sub/d.mkv"])
            #expect(all.unlistedDirectories == 0 && !all.isCut)
            let cut = try contents(fixture, FolderQuery(path: "", match: "mkv", limit: 3))
            #expect(cut.entries.count == 3 && cut.isCut)
            #expect(try contents(fixture, FolderQuery(path: "", match: "x")).entries.isEmpty)
        }
    }

    @Test(arguments: ["none", "a.mkv", "sub/none"]) func whatIsNoFolderIsRefused(_ path: String) throws {
        try withFilms { fixture, _, _ in
            _ = try fixture.lookup("a.mkv").get()
            #expect(throws: MaintenanceFailure.self) { try contents(fixture, FolderQuery(path: path)) }
        }
    }

    @Test func aFailureIsRememberedOnceAndTenAtMost() {
        let failures = LastFailures()
        func record(_ file: Int, _ when: String, _ failure: String? = "403") -> RequestRecord {
            RequestRecord(when: when, file: "\(file)", why: "read", bytes: 0, milliseconds: 1, failure: failure)
        }
        failures.add(record(0, "a", nil))
        #expect(failures.all.isEmpty)
        for file in 0..<12 { failures.add(record(file, "a")) }
        failures.add(record(5, "b"))
        #expect(failures.all.map(\.file) == ["2", "3", "4", "6", "7", "8", "9", "10", "11", "5"])
        #expect(failures.all.last?.when == "b")
    }
}
