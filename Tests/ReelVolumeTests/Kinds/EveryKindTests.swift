import ReelCore
import ReelFilesystem
import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// What each kind of source must do.
enum KindQuestion: String, CaseIterable, CustomTestStringConvertible, Sendable {
    /// It is found to be of its kind, its names are shown, and its films have their bytes.
    case listed
    /// What is new appears, and what is gone goes.
    case changed
    /// An empty listing takes nothing away at once, and one that is empty again is believed.
    case empty
    /// Half a listing takes nothing away.
    case cut
    /// A document of another kind takes nothing away.
    case foreign
    /// A busy server takes nothing away.
    case busy
    /// A server that wants a login from now on takes nothing away.
    case loginLater
    /// A mount says that a login is wanted.
    case loginBefore
    /// Whatever the names are, a mount shows names that a filesystem can hold, each once.
    case hostileNames
    /// A mount goes on without its source.
    case away
    /// A known source is mounted without its server.
    case remounted
    /// A source that nothing is known of is not mounted without its server, and the mount says why.
    case unreachable

    var testDescription: String { rawValue }

    /// It needs several listings, which are seconds apart.
    var waits: Bool { [.empty, .cut, .foreign, .busy, .loginLater].contains(self) }
}

/// Every kind of source is asked every question.
@Suite struct EveryKindTests {
    @Test("Each kind in the registry has a stage", arguments: SourceKinds.all.map { $0.kind })
    func staged(kind: String) {
        #expect(StagedKind.all.contains { $0.kind.kind == kind }, "add it to StagedKind.all")
    }

    /// Where listings are waited for, one stage of each kind will do, and every other question: each is asked of every
    /// other kind.
    private static func isAlwaysAsked(_ question: KindQuestion, of kind: StagedKind) -> Bool {
        let isFirst = StagedKind.all.first { $0.kind == kind.kind }?.testDescription == kind.testDescription
        let places = [
            SourceKinds.all.firstIndex { $0.kind == kind.kind.kind }, KindQuestion.allCases.firstIndex(of: question),
        ]
        return isFirst && places.reduce(0) { $0 + ($1 ?? 0) } % 2 == 0
    }

    @Test("Each kind does what every kind must do", arguments: StagedKind.all, KindQuestion.allCases)
    func question(_ kind: StagedKind, _ question: KindQuestion) throws {
        guard kind.without[question] == nil else { return }
        guard LongTests.areRun || !question.waits || Self.isAlwaysAsked(question, of: kind) else { return }
        let stage = try kind.open()
        defer { stage.close() }
        try stage.show("one.mkv", "two.mkv")
        let scene = KindScene(kind: kind, stage: stage)
        switch question {
        case .listed: try scene.isListed()
        case .changed: try scene.follows()
        case .empty: try scene.empties()
        case .cut: try scene.keeps(.cut, mark: "cut-short ")
        // A server that answers a PROPFIND with a page has not done what was asked.
        case .foreign: try scene.keeps(.foreign, mark: kind.kind == WebDAVSource.self ? "status-200 " : "no-listing ")
        case .busy: try scene.keeps(.busy, mark: "status-503 ")
        case .loginLater: try scene.keeps(.login, mark: "status-401 ")
        case .loginBefore: try scene.isRefused(.login, "401")
        case .hostileNames: try scene.holds(KindScene.hostileNames)
        case .away: try scene.goesOn()
        case .remounted: try scene.goesOn(remounted: true)
        case .unreachable:
            stage.close()
            try scene.isRefused(nil, stage.address.hasPrefix("/") ? "neither" : "cannot be reached")
        }
    }
}

private struct KindScene {
    let kind: StagedKind
    let stage: any KindStage

    static let hostileNames: [[UInt8]] =
        [
            "..", ".", "", "/", "../../etc/passwd", "a/b.mkv", "a\\b.mkv", "nul\0.mkv", "two\nlines.mkv", "tab\t.mkv",
            "\r.mkv", "\u{1B}[31mred.mkv", "\u{7F}.mkv", "\u{85}.mkv", "%2F.mkv", "%2e%2e", " ", "-rf", "?.mkv",
            "#.mkv", "<b>.mkv", "&amp;.mkv", "\"'.mkv", "one.mkv", "one.mkv", "One.mkv", "e\u{301}.mkv", "\u{E9}.mkv",
            "unnamed", String(repeating: "x", count: 400) + ".mkv", String(repeating: "\u{FC}", count: 200) + ".mkv",
        ].map { Array($0.utf8) } + [[0xFF, 0xFE], [0xC3]]

    private func withMount(_ body: (VolumeFixture) throws -> Void) throws {
        let fixture = try VolumeFixture(stage.address, timeout: .seconds(3), refresh: .zero, ssh: stage.ssh)
        defer { fixture.remove() }
        try body(fixture)
    }

    private var first: [String] {
        kind.kind == FileSource.self ? ["one.mkv"] : ["one.mkv", "two.mkv"].map(stage.shown)
    }

    private func mark(_ fixture: VolumeFixture) -> String? {
        (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: rootNode).get())
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private func bytes(of name: String, in fixture: VolumeFixture) -> Result<[UInt8], VolumeError> {
        fixture.open(name).flatMap { file in
            defer { fixture.volume.close(file) }
            return fixture.read(file, 0, 5000)
        }
    }

    private var expected: [UInt8] { Array(stage.film.prefix(5000)) }

    private func hasFilm(_ fixture: VolumeFixture, _ name: String) -> Bool {
        bytes(of: name, in: fixture) == .success(expected)
    }

    private func shows(_ fixture: VolumeFixture, _ names: [String]) -> Bool {
        fixture.names().map { $0.sorted() } == .success(names.sorted())
    }

    // MARK: Questions

    func isListed() throws {
        try withMount { fixture in
            #expect(fixture.store.setting("kind") == kind.kind.kind)
            #expect(shows(fixture, first))
            for name in first { #expect(hasFilm(fixture, name), "\(name)") }
        }
    }

    func follows() throws {
        try withMount { fixture in
            #expect(shows(fixture, first))
            try stage.show("two.mkv", "three.mkv")
            let names = ["two.mkv", "three.mkv"].map(stage.shown)
            #expect(eventually { shows(fixture, names) })
            #expect(mark(fixture) == nil)
            for name in names { #expect(hasFilm(fixture, name), "\(name)") }
        }
    }

    /// An answer takes nothing away, also from a mount that begins with it; the next good one counts.
    func keeps(_ answer: StageAnswer, mark expected: String) throws {
        try withMount { fixture in
            #expect(shows(fixture, first))
            try stage.answer(answer)
            var seen: String?
            let isMarked = eventually {
                if !shows(fixture, first) { Issue.record("the tree is another") }
                seen = mark(fixture)
                return seen?.hasPrefix(expected) == true
            }
            #expect(isMarked, "\(seen ?? "no mark")")
            if kind.without[.remounted] == nil {
                try fixture.restart()
                #expect(shows(fixture, first))
            }
            try stage.show("one.mkv", "three.mkv")
            let isBack = eventually(within: .seconds(30)) {
                shows(fixture, ["one.mkv", "three.mkv"].map(stage.shown)) && mark(fixture) == nil
            }
            #expect(isBack)
        }
    }

    func empties() throws {
        try withMount { fixture in
            #expect(shows(fixture, first))
            try stage.show()
            #expect(
                eventually {
                    if !shows(fixture, first) { Issue.record("the tree is another") }
                    return mark(fixture)?.hasPrefix("empty ") == true
                })
            #expect(eventually(within: .seconds(30)) { shows(fixture, []) })
            #expect(mark(fixture) == nil)
        }
    }

    func isRefused(_ answer: StageAnswer?, _ words: String) throws {
        if let answer { try stage.answer(answer) }
        let reason = try #require(throws: SourceError.self) { try withMount { _ in } }
        #expect("\(reason)".contains(words), "\(reason)")
    }

    func holds(_ names: [[UInt8]]) throws {
        try stage.answer(.names(names))
        try withMount { fixture in
            let shown = try fixture.names().get()
            #expect(shown.contains("one.mkv") && Set(shown.map { Array($0.utf8) }).count == shown.count)
            for name in shown {
                let bytes = Array(name.utf8)
                let isSafe =
                    (1...255).contains(bytes.count) && name != "." && name != ".."
                    && name.unicodeScalars.allSatisfy { $0 != "/" && $0.properties.generalCategory != .control }
                #expect(isSafe, "\(bytes)")
                let entry = try fixture.lookup(name).get()
                if entry.attributes.isDirectory { continue }
                let film = self.bytes(of: name, in: fixture)
                // A line of a listing that a name has broken in two names nothing.
                #expect(film == .success(expected) || film == .failure(.stale), "\(name)")
            }
            // What they would lead to.
            #expect(throws: VolumeError.notFound) { try fixture.lookup("..").get() }
        }
    }

    func goesOn(remounted: Bool = false) throws {
        try withMount { fixture in
            #expect(shows(fixture, first) && hasFilm(fixture, first[0]))
            stage.close()
            if remounted { try fixture.restart() }
            #expect(shows(fixture, first) && hasFilm(fixture, first[0]))
            guard kind.without[.changed] == nil else { return }
            #expect(
                eventually {
                    if !shows(fixture, first) { Issue.record("the tree is another") }
                    return mark(fixture)?.hasPrefix("unreachable ") == true
                })
        }
    }
}
