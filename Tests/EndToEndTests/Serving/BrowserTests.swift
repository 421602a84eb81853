import FoundationEssentials
import Glibc
import ReelCore
import TestKit
import Testing

/// Debian's `chromium-headless-shell`, or another Chromium. CI has it where the distribution does.
private let browser = ["chromium-headless-shell", "chromium", "chromium-browser"].lazy.map { "/usr/bin/" + $0 }
    .first { access($0, X_OK) == 0 }

/// The page in a real browser.
@Suite(.enabled(if: browser != nil, "there is no Chromium"))
struct BrowserTests {
    private struct Seen: Decodable {
        var values: [String]
        var console: [String]
    }

    private enum Step {
        case wait(String)
        case value(String)
        case other(String, String)

        var json: String {
            switch self {
            case .wait(let text): "{\"wait\":\(quoted(text))}"
            case .value(let text): "{\"value\":\(quoted(text))}"
            case .other(let name, let json): "{\"\(name)\":\(json)}"
            }
        }
    }

    private static func quoted(_ text: String) -> String {
        String(decoding: (try? JSONEncoder().encode(text)) ?? Data(), as: UTF8.self)
    }

    private func browse(_ url: String, _ steps: [Step]) throws -> Seen {
        let script = repository + "/Tests/Browser/browse.py"
        let json = "[" + steps.map(\.json).joined(separator: ",") + "]"
        let end = try ChildProcess.run(["python3", script, try #require(browser), url, json], within: .seconds(50))
        try #require(end.status == 0, "\(end.errors)")
        return try JSONDecoder().decode(Seen.self, from: Data(end.output.utf8))
    }

    private struct Playing {
        var scene: Scene
        var serving: Serving
        var token: String
        var origin: String
    }

    /// A program reads the file `name` as slowly as a player does, and longer than the browser looks.
    private func withPlayer(of name: String, _ body: (Playing) throws -> Void) throws {
        let film = FileOrigin(length: 512 << 20)
        film.fault = .drip(piece: 128 << 10, pause: .milliseconds(50))
        let server = try ScriptedServer { request in
            request.path == "/"
                ? ServerStep.answer(
                    200, [("Content-Type", "audio/x-mpegurl")],
                    body: "#EXTM3U\n#EXTINF:1,\(name.dropLast(4))\n/film.mkv\n")
                : film.answer(request)
        }
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                let listing = try RawAnswer(serving.port, "GET", "/files/")
                let link = try #require(
                    String(decoding: listing.body, as: UTF8.self).split(separator: "href=\"").dropFirst()
                        .first { $0.contains(".mkv") }?.prefix { $0 != "\"" })
                // With a pace of its own, below that of the origin.
                let player = try ChildProcess(
                    ["curl", "-s", "--limit-rate", "2400K", "-o", "/dev/null", serving.files + link])
                defer {
                    player.signal(SIGKILL)
                    _ = try? player.wait()
                }
                let token = trimmed(try #require(contents(scene.cache + "/listen.token")))
                try body(Playing(scene: scene, serving: serving, token: token, origin: server.address))
            }
        }
    }

    @Test("The page shows the film that a program reads, its numbers change, and the console has no complaint")
    func shows() throws {
        // A name that would be markup.
        try withPlayer(of: "a <img src=x onerror=alert(1)>.mkv") { playing in
            let scene = playing.scene
            let place = "document.querySelector('#playing .place b').textContent"
            let seen = try browse(
                playing.serving.address + "#token=" + playing.token,
                [
                    .other("size", "[1280,900]"), .wait("document.querySelectorAll('#playing > li').length === 1"),
                    .wait("document.querySelector('#playing dd') !== null"),
                    .value("document.querySelector('#playing .name').textContent"), .value(place),
                    .value("(window.first = \(place), String(document.querySelectorAll('img').length))"),
                    .wait("\(place) !== window.first"), .wait("past.length >= 2 && before.rate > 0"),
                    .value("document.querySelector('#playing .map').getAttribute('aria-label')"),
                    .value("document.getElementById('link').dataset.state"),
                    .value("document.querySelector('#origins .what').textContent"),
                    .other("picture", quotedPath(scene, "wide.png")), .other("size", "[360,740]"),
                    .value("String(document.documentElement.scrollWidth)"),
                    .other("picture", quotedPath(scene, "narrow.png")),
                    .other("click", Self.quoted("#playing button[data-call=pin]")),
                    // The next news may be that the film goes on.
                    .wait("$('news').textContent.endsWith(': done.')"), .value("$('news').textContent"),
                    .wait("document.querySelector('#playing button[data-call=unpin]') !== null"),
                    .value("location.hash"),
                ])
            #expect(seen.console.isEmpty, "\(seen.console)")
            let values = seen.values
            #expect(values[0].hasPrefix("a <img") && values[0].hasSuffix(".mkv"), "\(values)")
            #expect(values[1].contains(" of ") && values[2] == "0", "\(values)")
            #expect(values[3].hasPrefix("Map of the file: ") && values[3].contains("a reader at"), "\(values)")
            #expect(values[4] == "live" && values[5] == playing.origin.dropLast(), "\(values)")
            #expect(values[6] == "360", "the page is wider than the window: \(values)")
            #expect(values[7].hasPrefix("Pin a <img") && values[7].hasSuffix(": done."), "\(values)")
            #expect(values[8].isEmpty, "the token stands in the address")
            #expect(try readWhole(scene.work("wide.png")).count > 10_000)
        }
    }

    @Test("Controls have names and roles, Tab, Enter and Space are enough, and numbers change in silence")
    func needsNoPointer() throws {
        try withPlayer(of: "film.mkv") { playing in
            let controls =
                ["Browse files", "Offline"]
                + ["Prefetch", "Pin", "Evict", "Refresh", "Explain"].map { $0 + " film.mkv" }
                + ["Set"]
            // The field of the limit has a label of its own.
            let stops = Array(controls.dropLast()) + ["", "Set", "Folders", "Other mounts"]
            let focus = "document.activeElement", call = focus + ".dataset.call"
            let live = "[aria-live], [role=status], [role=alert], [role=log], [role=timer], [role=marquee], output"
            // The number of live regions, their changes while three messages come, and whether numbers changed.
            let silence = """
                new Promise((done) => {
                    let changes = 0;
                    const regions = document.querySelectorAll("\(live)");
                    const watch = new MutationObserver(() => changes += 1);
                    const kinds = { childList: true, subtree: true, characterData: true, attributes: true };
                    for (const region of regions) watch.observe(region, kinds);
                    const numbers = () => document.querySelector("main").textContent;
                    const [first, told] = [past.length, numbers()];
                    const look = () => past.length < first + 3 ? setTimeout(look, 50)
                        : done([regions.length, changes, told !== numbers()].join(" "));
                    look();
                })
                """
            func key(_ name: String) -> Step { .other("key", Self.quoted(name)) }
            func tree(_ role: String) -> Step { .other("tree", Self.quoted(role)) }
            func said(_ text: String) -> Step { .wait("$('news').textContent === \(Self.quoted(text))") }
            let roles = ["link", "button", "image", "region"]
            let tabs = stops.flatMap { _ in
                [key("Tab"), .value("\(focus).ariaLabel ?? \(focus).textContent")]
            }
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.querySelectorAll('#playing button').length === 5"), .wait("past.length > 0"),
                    .value(silence),
                ] + roles.map(tree) + tabs + [
                    // Nothing else has the focus.
                    key("Tab"), .value(focus + ".tagName"),
                    .value("(document.querySelector('button[data-call=pin]').focus(), \(call))"),
                    key(" "), .wait("$('token').open"), tree("dialog"), tree("textbox"),
                    key("Escape"), .wait("!$('token').open && \(focus).ariaDisabled === null"), .value(call),
                    key("Enter"), .wait("$('token').open"), .other("type", Self.quoted(playing.token)),
                    key("Enter"), said("Pin film.mkv: done."), .wait("\(call) === 'unpin'"), key(" "),
                    said("Unpin film.mkv: done."), .wait("\(call) === 'pin'"),
                ])
            // The calls without the token.
            #expect(seen.console.allSatisfy { $0.contains("401") }, "\(seen.console)")
            #expect(seen.values[0] == "1 0 true")
            let names = seen.values[1..<5].map { $0.split(separator: "\n", omittingEmptySubsequences: false) }
            #expect((names[0] + names[1]).sorted() == controls.map { $0[...] }.sorted())
            #expect(names.allSatisfy { !$0.contains("") }, "\(names)")
            #expect(names[2].contains { $0.hasPrefix("Map of the file: ") } && names[3].count == 7, "\(names)")
            #expect(Array(seen.values[5..<16]) == stops)
            #expect(Array(seen.values[16...]) == ["BODY", "pin", "Token", "Token", "pin"])
        }
    }

    @Test("The other mounts of the user are listed while that is asked for, each with the way to its page")
    func othersAreListed() throws {
        try withPlayer(of: "film.mkv") { playing in
            let server = try filmServer(FileOrigin(length: 5_000))
            defer { server.stop() }
            let other = try playing.scene.mount(server.address, ["--listen", "127.0.0.1:0"])
            let status = try ChildProcess.run([program, "status", other.path]).output
            let page = try #require(status.split(separator: "\n").first { $0.contains("listens") })
            let row =
                "[...document.querySelectorAll('#mounts li')].find((one) => one.textContent.startsWith('\(other.path)'))"
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.readyState === 'complete'"), .wait("past.length > 0"),
                    .value("String(document.querySelectorAll('#mounts li').length)"),
                    .other("click", Self.quoted("#others summary")), .wait("\(row) !== undefined"),
                    .value("\(row).querySelector('a').href"), .value("\(row).querySelector('.more').textContent"),
                    .value("\(row).dataset.state"),
                ])
            #expect(seen.values[0] == "0" && page.hasSuffix(seen.values[1]), "\(seen.values) \(page)")
            #expect(seen.values[2] == "\(server.address) · well" && seen.values[3] == "well", "\(seen.values)")
            #expect(seen.console.isEmpty, "\(seen.console)")
            try other.unmount()
        }
    }

    @Test("Cancel ends one prefetch, however many paths it has, and has a name also where that is all of the mount")
    func cancelsOnePrefetch() throws {
        try withPlayer(of: "film.mkv") { playing in
            // The requests that the page makes, and the answer to them.
            let page = """
                (source.close(), window.sent = [], window.fetch = async (path, given) =>
                    (window.sent.push(path + " " + given.body), new Response('{"cancelled":1}')),
                    showPrefetches([{ number: 7, paths: ["a/one.mkv", "b"], phase: "fetching", bytes: 2, doneBytes: 1 },
                        { number: 8, paths: [""], phase: "listing", bytes: 0, doneBytes: 0 }]), 'begun')
                """
            let cancel = "#prefetches li:nth-child(%) button"
            func nth(_ place: Int) -> String { cancel.split(separator: "%").joined(separator: "\(place)") }
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.readyState === 'complete'"), .wait("calls.size > 0 && past.length > 0"),
                    .value(page),
                    .value("document.querySelector('\(nth(1))').ariaLabel"),
                    .value("document.querySelector('\(nth(2))').ariaLabel"),
                    .other("click", Self.quoted(nth(1))), .wait("$('news').textContent.includes('done')"),
                    .value("window.sent.join()"), .value("$('news').textContent"),
                ])
            struct Done: Decodable {
                var number: Int?
                var cancelled: Int?
            }
            func call(_ name: String, _ body: String) throws -> Done {
                let answer = try RawAnswer(
                    playing.serving.port, "POST", "/api/v1/" + name, ["Authorization: Bearer " + playing.token],
                    body: body)
                #expect(answer.status == 200)
                return try JSONDecoder().decode(Done.self, from: Data(answer.body))
            }
            let number = try #require(try call("prefetch", "path=film.mkv").number)
            #expect(try call("cancel-prefetch", "number=\(number + 1)").cancelled == 0)
            #expect(try call("cancel-prefetch", "number=\(number)").cancelled == 1)
            #expect(try call("cancel-prefetch", "number=\(number)").cancelled == 0)
            #expect(seen.console.isEmpty, "\(seen.console)")
            #expect(
                seen.values == [
                    "begun", "Cancel prefetch of a/one.mkv, b", "Cancel prefetch of all files",
                    #"/api/v1/cancel-prefetch {"number":7}"#, "Cancel a/one.mkv, b: done.",
                ])
        }
    }

    @Test("Evict asks about what is open now, also where the page has not heard of it")
    func asksByTheDaemonsState() throws {
        try withPlayer(of: "film.mkv") { playing in
            let isOpen = "fetch('/api/v1/status').then((a) => a.json()).then((s) => s.volume.files[0].openHandles > 0)"
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.querySelectorAll('#playing button').length === 5"), .wait(isOpen),
                    // As the page would have it if the program had come since the last message.
                    .value(
                        """
                        new Promise((done) => (source.close(), fetch('/api/v1/status').then((a) => a.json())
                            .then((s) => (s.volume.files[0].openHandles = 0, show(s), done('closed')))))
                        """),
                    .other("click", Self.quoted("#files button[data-call=evict]")),
                    .wait("$('sure').open || $('token').open"), .value("String($('sure').open)"),
                    .value("$('sure-title').textContent"),
                ])
            #expect(seen.values == ["closed", "true", "Evict film.mkv?"])
        }
    }

    @Test("A film's state is what the verdict says of it, and its place is how far it was read")
    func judgesOnce() throws {
        try withPlayer(of: "film.mkv") { playing in
            let shown = """
                (source.close(), new Promise((done) => fetch('/api/v1/status').then((a) => a.json()).then((s) => {
                    const file = { ...s.volume.files[0], openHandles: 1, waiting: 8300 };
                    s.volume.files = [file, { ...file, path: "other.mkv", waiting: 1200 }];
                    const state = (n) => document.querySelectorAll('#playing .state')[n];
                    const told = (verdict) => (s.volume.verdict = verdict, show(s),
                        [0, 1].map((n) => state(n).dataset.s + ":" + state(n).textContent.split(" · ").at(-1)).join());
                    done([told({ word: "stands", path: file.path, sentence: "film.mkv stands for 8 s: the origin is away" }),
                        told({ word: "stops", path: file.path, sentence: "film.mkv stops in 40 s: 1 B/s come" }),
                        told({ word: "well", sentence: "all play on" })].join("; "));
                })))
                """
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.querySelector('#playing .place b')?.textContent.includes(' of ')"),
                    .wait("document.querySelector('#playing .state').dataset.s === 'plays'"),
                    .value("document.querySelector('#playing .place b').textContent"), .value(shown),
                ])
            #expect(seen.console.isEmpty, "\(seen.console)")
            #expect(seen.values[0].hasPrefix("read up to "), "\(seen.values)")
            #expect(
                seen.values[1] == "bad:stands for 8 s,waits:waits 1.2 s; bad:stops in 40 s,plays:playing; "
                    + "plays:playing,plays:playing")
        }
    }

    @Test("The rate is limited by mouse, a schedule is shown in words, and offline is said wherever a rate would stand")
    func limitsTheRate() throws {
        try withPlayer(of: "film.mkv") { playing in
            let limit = "$('limit-now').textContent"
            func click(_ selector: String) -> Step { .other("click", Self.quoted(selector)) }
            func set(_ rate: String) -> [Step] {
                [click("#limit-rate"), .other("type", Self.quoted(rate)), click("#limit button")]
            }
            let words =
                "['#link', '#rate', '#origins .more', '#verdict'].map((q) => "
                + "document.querySelector(q).textContent).join('|')"
            let seen = try browse(
                playing.serving.address + "#token=" + playing.token,
                [.wait("document.readyState === 'complete' && !$('limit').hidden")]
                    + [.value(limit), .value("String($('limit-off').hidden)")]
                    + set("2M") + [.wait("\(limit) === '2.00 MiB/s'"), .value("$('limit-rate').value")]
                    + set("23:00,off 08:00,512K") + [.wait("\(limit).startsWith('from')"), .value(limit)]
                    + set("fast") + [.wait("$('news').textContent.startsWith('Set fast: ')"), .value(limit)]
                    + [click("#limit-off"), .wait("\(limit) === 'none'")]
                    + [click("#offline"), .wait("$('link').dataset.state === 'offline'"), .value(words)]
                    + [.value("document.querySelector('#origins li').dataset.state")]
                    + [click("#offline"), .wait("$('link').dataset.state === 'live'"), .value("$('rate').textContent")])
            #expect(seen.console.allSatisfy { $0.contains("400") }, "\(seen.console)")
            #expect(
                seen.values.prefix(5) == [
                    "none", "true", "", "from 08:00 512 KiB/s, from 23:00 none",
                    "from 08:00 512 KiB/s, from 23:00 none",
                ])
            let parts = seen.values[5].split(separator: "|")
            #expect(parts[0] == "offline: nothing is asked for" && parts[1] == "Offline", "\(seen.values)")
            #expect(parts[2].hasPrefix("not asked while offline") && !parts[2].contains("/s"), "\(seen.values)")
            #expect(seen.values[6] == "offline" && seen.values[7].hasSuffix("B/s"), "\(seen.values)")
        }
    }

    @Test("Folders are walked, searched and acted on, a file is explained, and a failure is shown with its host")
    func walksFolders() throws {
        let film = FileOrigin(length: 1 << 20)
        @Sendable func page(_ names: [String]) -> [ServerStep] {
            let lines = names.map { "<a href=\"\($0)\">\($0)</a>  14-Nov-2023 22:13  1048576\r\n" }
            return ServerStep.answer(
                200, [("Content-Type", "text/html")],
                body: "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
                    + "<a href=\"../\">../</a>\r\n\(lines.joined())</pre><hr></body></html>")
        }
        let server = try ScriptedServer { request in
            switch request.path {
            case "/": page(["sub/", "a.mkv", "gone.mkv"])
            case "/sub/": page(["Some%20Film.mkv"])
            case "/gone.mkv": ServerStep.answer(403)
            default: film.answer(request)
            }
        }
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                for path in ["/files/sub/Some%20Film.mkv", "/files/gone.mkv"] {
                    _ = try RawAnswer(serving.port, "GET", path)
                }
                let token = trimmed(try #require(contents(scene.cache + "/listen.token")))
                let names = "[...document.querySelectorAll('#found .what')].map((e) => e.textContent).join()"
                let row = "#found li:first-child "
                let find = "($('match').value = 'FILM', $('match').dispatchEvent(new Event('input')), 'typed')"
                let seen = try browse(
                    serving.address + "#token=" + token,
                    [
                        .wait("document.readyState === 'complete' && calls.size > 0"), .wait("past.length > 0"),
                        .value("$('failures').textContent"), .other("click", Self.quoted("#browse summary")),
                        .wait("\(names) !== ''"), .value(names), .value(find),
                        .wait("\(names) === 'sub/Some Film.mkv'"),
                        .value("document.querySelector('\(row).more').textContent"),
                        .other("click", Self.quoted(row + "button[data-call=pin]")),
                        .wait("document.querySelector('\(row)button[data-call=unpin]') !== null"),
                        .other("click", Self.quoted(row + "button[data-call=explain]")), .wait("$('why').open"),
                        .value("$('why-title').textContent"), .value("$('why-list').children.length > 0 ? 'told' : ''"),
                        .other("key", Self.quoted("Escape")), .wait("!$('why').open"),
                        .value("(go(''), 'gone')"), .wait("\(names).startsWith('sub/,')"),
                        .other("click", Self.quoted(row + ".folder-name")), .wait("\(names) === 'Some Film.mkv'"),
                        .value("$('crumbs').textContent"), .value("$('token-file').textContent"),
                    ])
                #expect(seen.console.isEmpty, "\(seen.console)")
                let failure = seen.values[0]
                #expect(failure.contains("gone.mkv: ") && failure.contains("403") && failure.contains("127.0.0.1"))
                #expect(seen.values[1] == "sub/,a.mkv,gone.mkv")
                #expect(seen.values[3] == "1.00 MiB of 1.00 MiB, 100 %")
                #expect(seen.values[4...5] == ["Why Some Film.mkv was fetched", "told"], "\(seen.values)")
                #expect(seen.values[7...] == ["all filessub", scene.cache + "/listen.token"], "\(seen.values)")
                for (query, status) in [("path=None", 404), ("limit=0", 400), ("limit=501", 400), ("other=1", 400)] {
                    #expect(try RawAnswer(serving.port, "GET", "/api/v1/files?" + query).status == status)
                }
                let cut = try RawAnswer(serving.port, "GET", "/api/v1/files?limit=2")
                #expect(String(decoding: cut.body, as: UTF8.self).contains(#""isCut":true"#))
            }
        }
    }

    @Test("A page that is opened later shows the seconds before, without a gap")
    func showsThePast() throws {
        try withPlayer(of: "film.mkv") { playing in
            // One message a second.
            let connection = try RawConnection(playing.serving.port)
            connection.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            var bytes: [UInt8] = []
            while bytes.split(separator: Array("data: {".utf8)).count < 6 {
                let more = connection.receive(atLeast: 1)
                try #require(!more.isEmpty)
                bytes += more
            }
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.readyState === 'complete'"), .wait("past.length > 0"),
                    .value("past.filter((entry) => entry.rate > 1000000).length + ''"),
                    .value("(window.first = past.length) + ''"),
                    .wait("past.length >= window.first + 3"),
                    // A second in which enough was there has none.
                    .wait("document.getElementById('rate').textContent.endsWith('iB/s')"),
                    .value("past.filter((entry) => entry.isFirst).length + ''"),
                    .value("$('chart-line').getAttribute('d').match(/M/g).length + ''"),
                ])
            #expect(seen.console.isEmpty, "\(seen.console)")
            #expect(Int(seen.values[0]) ?? 0 >= 3, "\(seen.values)")
            #expect(seen.values[2...] == ["1", "1"], "\(seen.values)")
        }
    }

    private func quotedPath(_ scene: Scene, _ name: String) -> String { Self.quoted(scene.work(name)) }
}
