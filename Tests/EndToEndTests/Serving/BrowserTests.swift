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
                let player = try ChildProcess(["curl", "-s", "-o", "/dev/null", serving.files + link])
                defer {
                    player.signal(SIGKILL)
                    _ = try? player.wait()
                }
                let token = try #require(contents(scene.cache + "/listen.token")).filter { !$0.isWhitespace }
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
                    .wait("document.querySelector('#playing button[data-call=unpin]') !== null"),
                    .value("document.getElementById('news').textContent"), .value("location.hash"),
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
                ["Browse files", "Offline"] + ["Prefetch", "Pin", "Evict", "Refresh"].map { $0 + " film.mkv" }
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
            let tabs = controls.flatMap { _ in
                [key("Tab"), .value("\(focus).ariaLabel ?? \(focus).textContent")]
            }
            let seen = try browse(
                playing.serving.address,
                [
                    .wait("document.querySelectorAll('#playing button').length === 4"), .wait("past.length > 0"),
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
            #expect(names[0] + names[1] == controls.map { $0[...] })
            #expect(names.allSatisfy { !$0.contains("") }, "\(names)")
            #expect(names[2].contains { $0.hasPrefix("Map of the file: ") } && names[3].count == 7, "\(names)")
            #expect(Array(seen.values[5..<11]) == controls)
            #expect(Array(seen.values[11...]) == ["BODY", "pin", "Token", "Token", "pin"])
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
                    .value("(window.first = past.length, document.getElementById('rate').textContent)"),
                    .wait("past.length >= window.first + 3"),
                    .value("past.filter((entry) => entry.isFirst).length + ''"),
                    .value("$('chart-line').getAttribute('d').match(/M/g).length + ''"),
                ])
            #expect(seen.console.isEmpty, "\(seen.console)")
            #expect(Int(seen.values[0]) ?? 0 >= 3 && seen.values[1].hasSuffix("iB/s"), "\(seen.values)")
            #expect(seen.values[2...] == ["1", "1"], "\(seen.values)")
        }
    }

    private func quotedPath(_ scene: Scene, _ name: String) -> String { Self.quoted(scene.work(name)) }
}
