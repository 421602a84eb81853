import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelCache
@testable import ReelVolume

/// Listings that are asked for again: what changes, and what an error may not take away.
@Suite struct RefreshTests {
    /// A server whose one directory a test changes; below it, `sub/` is another.
    private final class Library: Sendable {
        enum Page: Sendable {
            case names([String])
            case status(Int)
            case login, cut, silence
            /// Some of the listing, and neither a length nor an end of the page.
            case truncated
        }

        let root = Shared(Page.names(["one.mkv", "two.mkv", "sub/"]))
        let sub = Shared(Page.names(["three.mkv"]))
        /// Sent with each listing; an equal If-None-Match is answered with 304.
        let tag = Shared<String?>(nil)
        /// The date of all directories.
        let date = Shared("21-Nov-2026 10:00")
        let server: ScriptedServer

        init() throws {
            let (root, sub, tag, date) = (root, sub, tag, date)
            server = try ScriptedServer { request in
                guard request.path.hasSuffix("/") else { return ServerStep.answer(404) }
                switch (request.path == "/" ? root : sub).value {
                case .status(let status): return ServerStep.answer(status)
                case .silence: return [.stall]
                case .login:
                    return ServerStep.answer(
                        200, [("Content-Type", "text/html")],
                        body: "<html><body><form><input type=password></form></body></html>")
                case .cut:
                    return [
                        .head(200, [("Content-Type", "text/html"), ("Content-Length", "5000")]),
                        .body(Array("<html><title>Index of /</title><pre><a href=\"../\">../</a>\n".utf8)), .close,
                    ]
                case .truncated:
                    return [
                        .head(200, [("Content-Type", "text/html"), ("Connection", "close")]),
                        .body(
                            Array(
                                ("<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                                    + "<a href=\"one.mkv\">one.mkv</a>  21-Nov-2026 10:00  1000\n").utf8)), .close,
                    ]
                case .names(let names):
                    let lines = names.map {
                        $0.hasSuffix("/")
                            ? "<a href=\"\($0)\">\($0)</a>  \(date.value)  -\n"
                            : "<a href=\"\($0)\">\($0)</a>  21-Nov-2026 10:00  1000\n"
                    }
                    var headers = [(name: "Content-Type", value: "text/html")]
                    if let tag = tag.value {
                        headers.append(("ETag", tag))
                        if request["if-none-match"] == tag { return [.head(304, headers)] }
                    }
                    return ServerStep.answer(
                        200, headers,
                        body: "<html><title>Index of \(request.path)</title><h1>Index of \(request.path)</h1><pre>"
                            + "<a href=\"../\">../</a>\n" + lines.joined() + "</pre></html>")
                }
            }
        }

        func requests(_ path: String = "/") -> [ServerRequest] { server.requests.filter { $0.path == path } }
    }

    private func withLibrary(
        refresh: Duration = .zero, timeout: Duration = .seconds(10), _ body: (VolumeFixture, Library) throws -> Void
    ) throws {
        let library = try Library()
        defer { library.server.stop() }
        let fixture = try VolumeFixture(library.server.url("/"), timeout: timeout, refresh: refresh)
        defer { fixture.remove() }
        try body(fixture, library)
    }

    private let all = Result<[String], VolumeError>.success(["one.mkv", "two.mkv", "sub"])

    private func mark(_ fixture: VolumeFixture, _ path: String = "") -> String? {
        let node = path.isEmpty ? rootNode : (try? fixture.lookup(path).get().node) ?? rootNode
        return (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: node).get())
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private func failures(_ fixture: VolumeFixture, _ path: String = "", recursive: Bool = false) throws -> [String] {
        try fixture.volume.maintenance.refresh(path, isRecursive: recursive).failedDirectories
            .map { "\($0.path): \($0.reason)" }
    }

    @Test("The command lists a folder at once, however young its listing is, and the kernel is notified of each name")
    func commanded() throws {
        try withLibrary(refresh: .seconds(3600)) { (fixture, library) throws in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            #expect(fixture.names() == all)
            library.root.set(.names(["one.mkv", "sub/", "new.mkv"]))
            let asked = library.requests("/").count
            #expect(try failures(fixture) == [])
            #expect(library.requests("/").count == asked + 1)
            #expect(fixture.names() == .success(["one.mkv", "sub", "new.mkv"]))
            #expect(Set(kernel.forgotten.withLock { $0 }) == ["two.mkv", "new.mkv"])
            #expect(library.requests("/sub/").isEmpty, "without -r only the folder itself")
            // A file stands for its folder.
            #expect(try failures(fixture, "one.mkv") == [])
            #expect(library.requests("/").count == asked + 2)
            #expect(throws: MaintenanceFailure.self) { try failures(fixture, "gone") }
            #expect(throws: MaintenanceFailure.self) { try failures(fixture, "one.mkv/x") }
        }
    }

    @Test("The command for a tree lists all of it, also what was never listed, and holds nothing afterwards")
    func commandedTree() throws {
        try withLibrary(refresh: .seconds(3600)) { (fixture, library) throws in
            #expect(try failures(fixture, recursive: true) == [])
            #expect(library.requests("/sub/").count == 1)
            library.sub.set(.names(["four.mkv"]))
            #expect(try failures(fixture, recursive: true) == [])
            #expect(library.requests("/sub/").count == 2)
            #expect(fixture.volume.tree.nodes.counts.known == 1)
            library.server.stop()
            #expect(fixture.names("sub") == .success(["four.mkv"]))
        }
    }

    @Test("A folder that the command cannot list keeps what it had, and is named with the reason")
    func commandedInTrouble() throws {
        try withLibrary(refresh: .seconds(3600)) { (fixture, library) throws in
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            library.sub.set(.status(403))
            #expect(try failures(fixture, recursive: true) == ["sub: status-403; it keeps what it had"])
            library.sub.set(.names([]))
            #expect(try failures(fixture, "sub") == ["sub: empty; it keeps what it had"])
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            library.sub.set(.names(["three.mkv", "five.mkv"]))
            #expect(try failures(fixture, "sub") == [])
            #expect(fixture.names("sub") == .success(["three.mkv", "five.mkv"]))
            library.root.set(.names(["new/"]))
            library.sub.set(.status(403))
            #expect(try failures(fixture, recursive: true) == ["new: access is denied"])
        }
    }

    @Test("A tree without end ends with the length of its paths, or once the client goes")
    func commandedWithoutEnd() throws {
        let name = String(repeating: "n", count: 200)
        let server = try ScriptedServer { request in
            ServerStep.answer(
                200, [("Content-Type", "text/html")],
                body: "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                    + "<a href=\"\(name)/\">\(name)/</a>  21-Nov-2026 10:00  -\n</pre></html>")
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), refresh: .seconds(3600))
        defer { fixture.remove() }
        #expect(try failures(fixture, recursive: true) == [])
        // The root was listed by the mount; 20 names of 201 bytes are less than 4,096.
        #expect(server.requests.count == 22)
        let over = MaintenanceWatch(isOver: { server.requests.count > 30 })
        #expect(throws: MaintenanceFailure.self) {
            try fixture.volume.maintenance.refresh("", isRecursive: true, over)
        }
        #expect(eventually { fixture.volume.tree.nodes.counts.known == 1 })
    }

    @Test func whatChangedIsSeenAfterTheNextLookAndTheKernelIsToldOfEachName() throws {
        try withLibrary { fixture, library in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            #expect(fixture.names() == all)
            #expect(fixture.lookup("new.mkv").map(\.node) == .failure(.notFound))
            library.root.set(.names(["one.mkv", "sub/", "new.mkv"]))
            #expect(eventually { fixture.names() == .success(["one.mkv", "sub", "new.mkv"]) })
            // The kernel is notified when the names are there, not before.
            #expect(eventually { Set(kernel.forgotten.withLock { $0 }) == ["two.mkv", "new.mkv"] })
            #expect(fixture.lookup("two.mkv").map(\.node) == .failure(.notFound))
            #expect(fixture.lookup("new.mkv").map(\.attributes.length) == .success(1000))
        }
    }

    /// What the kernel would read of the root: some of it, or all, with attributes or without. nil: it cannot.
    private func isHeld(_ fixture: VolumeFixture, afterReading count: Int, withAttributes: Bool) -> Bool? {
        func open() -> (any DirectoryHandle)? {
            try? fixture.wait { (done: @escaping Completion<any DirectoryHandle>) in
                fixture.volume.openDirectory(rootNode, done)
            }.get()
        }
        guard let directory = open() else { return nil }
        var offset = 0
        // In pieces, as the kernel's buffer lets it.
        while offset < count {
            var left = min(2, count - offset)
            directory.items(from: offset, withAttributes: withAttributes) { _ in
                left -= 1
                return left >= 0
            }
            offset += 2
        }
        return open()?.isHeldByKernel
    }

    @Test func theKernelHoldsADirectoryOnceItWasToldAllOfItAndUntilItChanges() throws {
        try withLibrary(refresh: .zero) { fixture, library in
            #expect(isHeld(fixture, afterReading: 4, withAttributes: true) == false)
            #expect(isHeld(fixture, afterReading: 5, withAttributes: false) == false)
            #expect(isHeld(fixture, afterReading: 5, withAttributes: true) == true)
            library.root.set(.names(["one.mkv", "sub/", "new.mkv"]))
            #expect(eventually { fixture.names() == .success(["one.mkv", "sub", "new.mkv"]) })
            #expect(isHeld(fixture, afterReading: 0, withAttributes: true) == false)
            #expect(isHeld(fixture, afterReading: 5, withAttributes: true) == true)
        }
    }

    @Test func ofTwoMountsNeitherIsTakenToHoldWhatTheOtherWasTold() throws {
        try withLibrary(refresh: .zero) { fixture, _ in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            kernel.hasOther.withLock { $0 = true }
            #expect(isHeld(fixture, afterReading: 5, withAttributes: true) == false)
            kernel.hasOther.withLock { $0 = false }
            #expect(isHeld(fixture, afterReading: 0, withAttributes: true) == false)
            #expect(isHeld(fixture, afterReading: 5, withAttributes: true) == true)
            kernel.hasOther.withLock { $0 = true }
            #expect(isHeld(fixture, afterReading: 0, withAttributes: true) == false)
        }
    }

    @Test func aReaderOfAnOldListingTellsNothingOfTheNewOne() throws {
        try withLibrary(refresh: .zero) { fixture, library in
            let opened = fixture.wait { (done: @escaping Completion<any DirectoryHandle>) in
                fixture.volume.openDirectory(rootNode, done)
            }
            let old = try opened.get()
            library.root.set(.names(["one.mkv", "two.mkv", "sub/", "new.mkv"]))
            #expect(eventually { fixture.names() == .success(["one.mkv", "two.mkv", "sub", "new.mkv"]) })
            #expect(isHeld(fixture, afterReading: 6, withAttributes: true) == true)
            old.items(from: 0, withAttributes: true) { _ in true }
            #expect(isHeld(fixture, afterReading: 0, withAttributes: true) == true)
        }
    }

    @Test func aDirectoryWithANewDateIsTheSameAndShowsIt() throws {
        try withLibrary { fixture, library in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            let before = try fixture.lookup("sub").get()
            library.date.set("22-Nov-2026 10:00")
            #expect(
                eventually {
                    (try? fixture.lookup("sub").get())?.attributes.modified == before.attributes.modified + 86_400
                })
            #expect(try fixture.lookup("sub").get().node == before.node)
            #expect(eventually { kernel.directories.withLock { $0.contains(before.node) } })
            #expect(kernel.forgotten.withLock { $0 } == [])
            let attributes = fixture.wait { fixture.volume.attributes(of: before.node, $0) }
            #expect(attributes.map(\.modified) == .success(before.attributes.modified + 86_400))
        }
    }

    @Test func theRootHasTheDateOfItsLastChangeAlsoAfterARemount() throws {
        try withLibrary(refresh: .seconds(300)) { fixture, library in
            let before: Int64 = 1_000_000_000
            let tree = fixture.volume.tree
            fixture.store.remember(
                StoredListing(entries: tree.rootEntries, fetchedAt: before, complete: true), for: tree.source.root.key)
            for _ in 0..<2 {
                try fixture.restart()
                #expect(fixture.names() == all)
                #expect(try rootDate(fixture) == before)
            }
            library.date.set("22-Nov-2026 10:00")
            try fixture.restart()
            let changed = try rootDate(fixture)
            #expect(changed > before)
            // As it is written down.
            let known = fixture.store.entries(at: fixture.volume.tree.source.root)
            #expect(known?.fetchedAt == changed)
        }
    }

    private func rootDate(_ fixture: VolumeFixture) throws -> Int64 {
        let attributes: Result<Attributes, VolumeError> = fixture.wait { fixture.volume.attributes(of: rootNode, $0) }
        return try attributes.get().modified
    }

    @Test func whatTheOriginSaidOfAFileStandsUntilTheListingSaysSomethingElseOfIt() throws {
        try withLibrary { fixture, library in
            #expect(fixture.names() == all)
            fixture.volume.tree.root.directory?.correct("one.mkv", Node.Facts(length: 7))
            let corrected = try fixture.lookup("one.mkv").get()
            #expect(corrected.attributes.length == 7)
            let count = library.requests().count
            #expect(
                eventually {
                    _ = fixture.names()
                    return library.requests().count >= count + 3
                })
            library.root.set(.names(["one.mkv", "new.mkv"]))
            #expect(eventually { fixture.names() == .success(["one.mkv", "new.mkv"]) })
            let now = try fixture.lookup("one.mkv").get()
            #expect(now.attributes.length == 7 && now.node == corrected.node)
        }
    }

    @Test func aRememberedListingIsReadOnceForAllWhoWait() throws {
        try withLibrary(refresh: .seconds(300)) { fixture, library in
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            try fixture.restart()
            let sub = try fixture.lookup("sub").get().node
            let directory = try #require(fixture.volume.tree.nodes[sub]?.directory)
            let names = Monitor<[String]>([])
            let open: @Sendable () -> Void = {
                fixture.volume.openDirectory(sub) { result in
                    try? result.get().items(from: 2, withAttributes: false) { item in
                        names.withLock { $0.append(item.name) }
                        return true
                    }
                }
            }
            let (isHeld, gate) = (Monitor(false), Monitor(false))
            let holder = startJoinable {
                let end = try? fixture.store.index.read { _ in
                    isHeld.withLock { $0 = true }
                    // Polled: no thread may wait on a monitor while it holds the gate.
                    return eventually(within: .seconds(30)) { gate.withLock { $0 } } ? true : nil
                }
                return end != nil
            }
            #expect(isHeld.wait(atMost: .seconds(30)) { $0 ? true : nil } == true)
            let first = startJoinable {
                open()
                return true
            }
            #expect(eventually { directory.loading.callers == 1 })
            // Returns at once, though the index is not to be had.
            open()
            #expect(directory.loading.callers == 2 && names.withLock { $0 } == [])
            gate.withLock { $0 = true }
            #expect(holder.join() && first.join())
            #expect(names.wait(atMost: .seconds(30)) { $0.count == 2 ? $0 : nil } == ["three.mkv", "three.mkv"])
            #expect(library.requests("/sub/").count == 1)
        }
    }

    @Test func aListingIsNotAskedForBeforeItsTime() throws {
        try withLibrary(refresh: .seconds(300)) { fixture, library in
            for _ in 0..<20 { #expect(fixture.names() == all) }
            #expect(library.requests().count == 1)
        }
    }

    @Test(arguments: ["500", "a login page", "cut short", "silence", "refused"])
    func anErrorLeavesTheLastGoodTreeMarked(_ trouble: String) throws {
        try withLibrary { fixture, library in
            #expect(fixture.names() == all)
            try fixture.restart(timeout: .seconds(1))
            let before = fixture.volume.tree.attributes(of: fixture.volume.tree.root)
            switch trouble {
            case "500": library.root.set(.status(500))
            case "a login page": library.root.set(.login)
            case "cut short": library.root.set(.cut)
            case "silence": library.root.set(.silence)
            default: library.server.stop()
            }
            let expected = [
                "500": "status-500", "a login page": "no-listing", "cut short": "cut-short",
                "silence": "timed-out", "refused": "unreachable",
            ]
            // On a busy machine any of them may run out of time once.
            let isMarked = eventually {
                if fixture.names() != all { Issue.record("the tree is another") }
                return mark(fixture)?.hasPrefix(expected[trouble]! + " 20") == true
            }
            #expect(isMarked, "\(mark(fixture) ?? "")")
            #expect(fixture.volume.status().staleDirectories.map(\.path) == [""])
            #expect(fixture.lookup("one.mkv").map(\.attributes.length) == .success(1000))
            #expect(fixture.volume.tree.attributes(of: fixture.volume.tree.root) == before)
        }
    }

    @Test func aMarkGoesWithTheNextGoodListing() throws {
        try withLibrary(timeout: .seconds(2)) { fixture, library in
            #expect(fixture.names() == all)
            library.root.set(.status(503))
            #expect(eventually { fixture.names() == all && mark(fixture) != nil })
            library.root.set(.names(["one.mkv", "two.mkv", "sub/"]))
            #expect(eventually { fixture.names() == all && mark(fixture) == nil })
            #expect(fixture.volume.status().staleDirectories.isEmpty)
        }
    }

    @Test func anEmptyListingIsBelievedWhenItComesTwice() throws {
        try withLibrary { fixture, library in
            #expect(fixture.names() == all)
            library.root.set(.names([]))
            #expect(eventually { fixture.names() == all && mark(fixture)?.hasPrefix("empty ") == true })
            let count = library.requests().count
            #expect(eventually(within: .seconds(15)) { fixture.names() == .success([]) })
            #expect(library.requests().count == count + 1)
            #expect(mark(fixture) == nil)
        }
    }

    @Test func aDirectoryThatIsNotFoundOnceStaysAndTwiceIsStale() throws {
        try withLibrary { fixture, library in
            #expect(fixture.names("sub") == .success(["three.mkv"]))
            library.sub.set(.status(404))
            #expect(eventually { fixture.names("sub") == .success(["three.mkv"]) && mark(fixture, "sub") != nil })
            #expect(eventually(within: .seconds(15)) { fixture.names("sub") == .failure(.stale) })
            #expect(fixture.names() == all)
            // An error does not bring it back.
            library.sub.set(.status(503))
            #expect(
                eventually(within: .seconds(15)) {
                    if fixture.names("sub") != .failure(.stale) { Issue.record("it is back") }
                    return mark(fixture, "sub")?.hasPrefix("status-503") == true
                })
            #expect(fixture.names("sub") == .failure(.stale))
            library.sub.set(.names(["four.mkv"]))
            #expect(eventually(within: .seconds(15)) { fixture.names("sub") == .success(["four.mkv"]) })
        }
    }

    @Test func theSourceItselfIsNeverGone() throws {
        try withLibrary { fixture, library in
            #expect(fixture.names() == all)
            library.root.set(.status(410))
            let count = library.requests().count
            #expect(
                eventually(within: .seconds(20)) {
                    if fixture.names() != all { Issue.record("the tree is another") }
                    return library.requests().count >= count + 3
                })
        }
    }

    @Test func aListingThatSaysItHasNotChangedIsNotSentAgain() throws {
        try withLibrary { fixture, library in
            library.tag.set("\"t1\"")
            // The first was fetched without a tag.
            #expect(
                eventually {
                    _ = fixture.names()
                    return library.requests().last?["if-none-match"] == "\"t1\""
                })
            let before = fixture.volume.tree.attributes(of: fixture.volume.tree.root).modified
            let count = library.requests().count
            #expect(
                eventually {
                    if fixture.names() != all { Issue.record("the tree is another") }
                    return library.requests().count >= count + 2
                })
            #expect(fixture.volume.tree.attributes(of: fixture.volume.tree.root).modified == before)
            library.tag.set("\"t2\"")
            library.root.set(.names(["one.mkv"]))
            #expect(eventually { fixture.names() == .success(["one.mkv"]) })
        }
    }

    @Test(arguments: ["empty", "truncated", "cut short"])
    func aListingWithLessAtMountTimeDoesNotReplaceAKnownOne(_ what: String) throws {
        try withLibrary(refresh: .seconds(300)) { fixture, library in
            #expect(fixture.names() == all)
            library.root.set(what == "empty" ? .names([]) : what == "truncated" ? .truncated : .cut)
            try fixture.restart()
            #expect(fixture.names() == all)
        }
    }
}
