import Foundation
import Glibc
import TestKit
import Testing

/// What HTTP clients ask a daemon to do.
@Suite struct CallTests {
    /// A real nginx over folders, and reelfs before it, which lists nothing again by itself.
    private func withLibrary(
        _ options: [String] = [], _ body: (_ root: String, Serving, _ token: String, Scene) throws -> Void
    ) throws {
        try withScene { scene in
            let root = scene.work("root")
            for folder in ["", "/TV", "/TV/A B", "/Films"] { mkdir(root + folder, 0o755) }
            try writeFile(root + "/TV/A B/one.mkv", [1])
            try writeFile(root + "/Films/film.mkv", Array(repeating: 7, count: 300_000))
            let server = try RealServer(.nginx, root: root, place: scene.work("server"))
            defer { server.stop() }
            try withServing(server.url, cache: scene.cache, ["--refresh", "1h"] + options) { serving in
                let text = try? readWhole(scene.cache + "/listen.token")
                let token = text.map { String(decoding: $0, as: UTF8.self).filter { $0 != "\n" } } ?? ""
                try body(root, serving, token, scene)
            }
        }
    }

    private func json(_ answer: RawAnswer) throws -> [String: Any] {
        let value = try JSONSerialization.jsonObject(with: Data(answer.body))
        return try #require(value as? [String: Any], "\(String(decoding: answer.body, as: UTF8.self))")
    }

    @Test("The token is the owner's alone, stays the same, and only with it something changes")
    func token() throws {
        try withLibrary { _, serving, token, scene in
            #expect(token.count == 64)
            #expect(try attributes(scene.cache + "/listen.token").st_mode & 0o777 == 0o600)
            let status = { (lines: [String], body: String) in
                try RawAnswer(serving.port, "POST", "/api/v1/pin", lines, body: body).status
            }
            let right = ["Authorization: Bearer \(token)", "Content-Type: application/json"]
            #expect(try status([], #"{"path":"Films"}"#) == 401)
            #expect(try status(["Authorization: Bearer \(token.dropLast())0x"], #"{"path":"Films"}"#) == 401)
            #expect(try status(right + ["Origin: http://films.example"], #"{"path":"Films"}"#) == 403)
            #expect(try status(right + ["Origin: null"], #"{"path":"Films"}"#) == 403)
            #expect(try status(right + ["Origin: http://localhost"], #"{"path":"Films"}"#) == 200)
            #expect(try status(right, #"{"path":"Films"}"#) == 200)
            #expect(try status(right, #"{"path":"None"}"#) == 404)
            #expect(try status(right, "{}") == 400)
            #expect(try status(right, #"{"path":"Films","other":1}"#) == 400)
            #expect(try status(right, "{") == 400)
            #expect(try status(right, #"{"path":""# + String(repeating: "a", count: 70_000) + "\"}") == 413)
            #expect(try RawAnswer(serving.port, "GET", "/api/v1/pin", right).status == 405)
            let preflight = try RawAnswer(
                serving.port, "OPTIONS", "/api/v1/pin", ["Origin: http://films.example"] + right)
            #expect(preflight.status == 403)
            #expect(!preflight.headers.keys.contains { $0.hasPrefix("access-control") })
            #expect(!serving.process.said.errors.contains(token))
        }
        // Made once for the cache directory; one that others can read is refused.
        try withScene { scene in
            let film = try filmServer(FileOrigin(length: 10))
            defer { film.stop() }
            let read = { String(decoding: try readWhole(scene.cache + "/listen.token"), as: UTF8.self) }
            try withServing(film.address, cache: scene.cache) { _ in }
            let first = try read()
            try withServing(film.address, cache: scene.cache) { _ in }
            #expect(try read() == first)
            chmod(scene.cache + "/listen.token", 0o644)
            let end = try ChildProcess.run([program, "serve", film.address, "--cache-dir", scene.cache])
            #expect(end.status == 1 && end.errors.contains("accessible to others"), "\(end)")
        }
    }

    @Test("With credentials every call wants them, and there is no token")
    func credentials() throws {
        try withScene { scene in
            let film = try filmServer(FileOrigin(length: 10))
            defer { film.stop() }
            let file = scene.work("secret")
            try writeFile(file, "username=ann\npassword=open sesame\n".utf8)
            chmod(file, 0o600)
            try withServing(film.address, cache: scene.cache, ["--listen-credentials", file]) { (serving) throws in
                #expect(access(scene.cache + "/listen.token", F_OK) != 0)
                #expect(try RawAnswer(serving.port, "POST", "/rc/noop").status == 401)
                let login = ["Authorization: Basic YW5uOm9wZW4gc2VzYW1l"]
                #expect(try RawAnswer(serving.port, "POST", "/api/v1/refresh", login, body: "path=").status == 200)
                // A browser sends the password along with any page's request.
                let foreign = login + ["Origin: http://films.example"]
                #expect(try RawAnswer(serving.port, "POST", "/api/v1/refresh", foreign, body: "path=").status == 403)
            }
        }
    }

    @Test("Pin, unpin, evict, prune and refresh do what the commands do")
    func commands() throws {
        try withLibrary { root, serving, token, scene in
            let call = { (name: String, body: String) in
                try RawAnswer(serving.port, "POST", "/api/v1/" + name, ["Authorization: Bearer \(token)"], body: body)
            }
            let cached = {
                let status = try json(try RawAnswer(serving.port, "GET", "/api/v1/status"))
                let files = (status["volume"] as? [String: Any])?["files"] as? [[String: Any]]
                return files?.compactMap { $0["cachedBytes"] as? Int }.reduce(0, +)
            }
            #expect(try RawAnswer(serving.port, "GET", "/files/Films/film.mkv").status == 200)
            #expect(try cached() == 300_000)
            #expect(try json(try call("pin", "path=Films/film.mkv"))["files"] as? Int == 1)
            #expect(try json(try call("prune", "bytes=0"))["bytes"] as? Int == 0)
            #expect(try json(try call("unpin", "path=/"))["files"] as? Int == 1)
            #expect(try json(try call("evict", "path=Films"))["bytes"] as? Int == 300_000)
            #expect(try cached() == 0)
            try writeFile(root + "/Films/new.mkv", [1])
            #expect(try RawAnswer(serving.port, "GET", "/files/Films/new.mkv").status == 404)
            let refreshed = try call("refresh", "path=Films&recursive=true")
            #expect(refreshed.status == 200 && refreshed.headers["content-type"] == "application/json")
            #expect(try RawAnswer(serving.port, "GET", "/files/Films/new.mkv").status == 200)
        }
    }

    @Test("Prefetch, its end, offline and the rate are steered as by the commands")
    func steering() throws {
        try withLibrary { _, serving, token, _ in
            let call = { (name: String, body: String) in
                try RawAnswer(serving.port, "POST", "/api/v1/" + name, ["Authorization: Bearer \(token)"], body: body)
            }
            let begun = try json(try call("prefetch", "path=Films&pin=true"))
            #expect(begun["number"] is Int && begun["pins"] as? Bool == true, "\(begun)")
            let isThere = eventually(within: .seconds(20)) {
                let status = try? json(RawAnswer(serving.port, "GET", "/api/v1/status"))
                let files = (status?["volume"] as? [String: Any])?["files"] as? [[String: Any]]
                return files?.contains { $0["cachedBytes"] as? Int == 300_000 } ?? false
            }
            #expect(isThere)
            #expect(try json(try call("cancel-prefetch", "path=/"))["cancelled"] as? Int == 0)
            #expect(try call("limit-rate", "rate=2M").status == 200)
            #expect(try call("limit-rate", "rate=fast").status == 400)
            #expect(try call("offline", "on=maybe").status == 400)
            #expect(try call("offline", "").status == 400)
            #expect(try call("offline", "on=true").status == 200)
            #expect(try RawAnswer(serving.port, "GET", "/files/Films/film.mkv").status == 200)
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/A%20B/one.mkv").status != 200)
            #expect(try call("offline", "on=false").status == 200)
            let isBack = eventually(within: .seconds(10)) {
                (try? RawAnswer(serving.port, "GET", "/files/TV/A%20B/one.mkv").status) == 200
            }
            #expect(isBack)
        }
    }

    @Test("The description names each path with its method, and no other")
    func description() throws {
        try withLibrary { _, serving, _, _ in
            let document = try json(try RawAnswer(serving.port, "GET", "/api/v1/openapi.json"))
            let version = (document["info"] as? [String: Any])?["version"] as? String
            #expect(version?.contains(/^[0-9.]+$/) == true)
            #expect((document["openapi"] as? String)?.hasPrefix("3.") == true)
            let paths = try #require(document["paths"] as? [String: [String: Any]])
            // Events have no end.
            for (path, methods) in paths where !["/files/{path}", "/api/v1/events"].contains(path) {
                for method in ["get", "post"] {
                    let answer = try RawAnswer(serving.port, method.uppercased(), path)
                    let isThere = ![404, 405].contains(answer.status)
                    #expect(isThere == (methods[method] != nil), "\(method) \(path): \(answer.status)")
                    let isOpen = (methods["post"] as? [String: Any])?["security"] == nil
                    if method == "post", isThere { #expect((answer.status == 401) != isOpen, "\(path)") }
                }
            }
            // All that the pages of the documentation describe.
            let told = [
                "/api/v1/status", "/api/v1/events", "/api/v1/openapi.json", "/metrics", "/api/v1/refresh",
                "/api/v1/pin",
                "/api/v1/unpin", "/api/v1/evict", "/api/v1/prune", "/vfs/refresh", "/vfs/forget", "/vfs/stats",
                "/core/version", "/rc/noop", "/files/{path}",
            ]
            #expect(Set(told).subtracting(paths.keys).isEmpty)
        }
    }

    /// Requests as clients of rclone send them, each for the folder `TV/A B`.
    private static let refreshes: [(client: String, target: String, type: String?, body: String)] = [
        ("rclone rc", "/vfs/refresh", "application/json", #"{"dir":"TV/A B","recursive":"true"}"#),
        ("rclone rc --json", "/vfs/refresh", "application/json", #"{"dir":"TV/A B","recursive":true}"#),
        ("curl with a query", "/vfs/refresh?dir=TV/A%20B", nil, ""),
        ("curl -G --data-urlencode", "/vfs/refresh?fs=remote%3A&dir=TV%2FA%20B&_async=true", nil, ""),
        (
            "curl -d", "/vfs/refresh", "application/x-www-form-urlencoded", "dir=TV%2FA+B&recursive=false"
        ),
        (
            "a manager that forgets first", "/vfs/forget", "application/json",
            #"{"dir":"TV/A B","dir2":"Films","fs":"realdebrid:"}"#
        ),
        (
            "one with booleans as texts", "/vfs/refresh", "application/json",
            #"{"_async":"false","dir":"/TV/A B/","fs":"altmount:","recursive":"false"}"#
        ),
        (
            "one that does not wait", "/vfs/refresh", "application/json",
            #"{"dir": "TV/A B", "recursive": true, "_async": true}"#
        ),
        ("one that forgets a file", "/vfs/forget", "application/json", #"{"file":"TV/A B/new.mkv"}"#),
        ("a script for all of it", "/vfs/refresh", "application/json", #"{"recursive":"true"}"#),
    ]

    @Test("Each client of rclone's calls has its folder shown as it is now")
    func managers() throws {
        try withLibrary { root, serving, token, _ in
            let path = "/files/TV/A%20B/new.mkv"
            for (client, target, type, body) in Self.refreshes {
                unlink(root + "/TV/A B/new.mkv")
                let login = ["Authorization: Bearer \(token)"] + (type.map { ["Content-Type: \($0)"] } ?? [])
                let clean = try RawAnswer(serving.port, "POST", "/vfs/refresh?dir=TV/A%20B", login)
                #expect(clean.status == 200, "\(client)")
                #expect(try RawAnswer(serving.port, "GET", path).status == 404, "\(client)")
                try writeFile(root + "/TV/A B/new.mkv", [1])
                #expect(try RawAnswer(serving.port, "POST", target, body: body).status == 401, "\(client)")
                #expect(try RawAnswer(serving.port, "GET", path).status == 404, "\(client)")
                let answer = try RawAnswer(serving.port, "POST", target, login, body: body)
                #expect(answer.status == 200, "\(client)")
                let told = try json(answer)
                if body.contains("_async\": true") || target.contains("_async=true") {
                    #expect(told["jobid"] is Int, "\(client)")
                } else if target.hasPrefix("/vfs/forget") {
                    #expect((told["forgotten"] as? [String])?.first?.hasPrefix("TV/A B") == true, "\(client): \(told)")
                } else {
                    #expect((told["result"] as? [String: String])?.values.allSatisfy { $0 == "OK" } == true, "\(told)")
                }
                let isShown = eventually(within: .seconds(10)) {
                    (try? RawAnswer(serving.port, "GET", path).status) == 200
                }
                #expect(isShown, "\(client)")
            }
        }
    }

    @Test("Answers and errors have the form of rclone's")
    func rcloneForm() throws {
        try withLibrary { root, serving, token, _ in
            let call = { (path: String, body: String) in
                try RawAnswer(
                    serving.port, "POST", path,
                    ["Authorization: Bearer \(token)", "Content-Type: application/json"], body: body)
            }
            let result = try json(try call("/vfs/refresh", #"{"dir":"TV","dir2":"None/x"}"#))["result"]
            #expect(result as? [String: String] == ["TV": "OK", "None/x": "file does not exist"])
            #expect(try json(try call("/vfs/refresh", ""))["result"] as? [String: String] == ["": "OK"])
            // A path of very many folders, and one that no program could name.
            let deep = { String(repeating: "a/", count: $0) + "b" }
            for name in ["refresh", "forget"] {
                #expect(try call("/vfs/\(name)", "{\"dir\":\"\(deep(2000))\"}").status == 200)
                #expect(try call("/vfs/\(name)", "{\"dir\":\"\(deep(30_000))\"}").status == 400)
            }
            let missing = try json(try call("/vfs/refresh", "{\"dir\":\"\(deep(2000))\"}"))["result"]
            #expect((missing as? [String: String])?.values.first == "file does not exist")
            #expect(try call("/api/v1/refresh", "{\"path\":\"\(deep(30_000))\"}").status == 400)
            // A folder that has come, in one that is not listed again by itself, and all below it.
            mkdir(root + "/TV/Deep", 0o755)
            mkdir(root + "/TV/Deep/Deeper", 0o755)
            let below = try json(try call("/vfs/refresh", #"{"dir":"TV/Deep/Deeper"}"#))["result"]
            #expect(below as? [String: String] == ["TV/Deep/Deeper": "OK"])
            mkdir(root + "/TV/New", 0o755)
            let new = try json(try call("/vfs/refresh", #"{"dir":"TV/New"}"#))["result"]
            #expect(new as? [String: String] == ["TV/New": "OK"])
            rmdir(root + "/TV/New")
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/New/").status == 200)
            let forgotten = try json(try call("/vfs/forget", #"{"dir":"/TV/New/"}"#))["forgotten"]
            #expect(forgotten as? [String] == ["TV/New"])
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/New/").status == 404)
            #expect(try json(try call("/vfs/forget", ""))["forgotten"] as? [String] == [])
            let unknown = try call("/vfs/refresh", #"{"dir":"TV","other":"x"}"#)
            #expect(unknown.status == 500)
            let told = try json(unknown)
            #expect(told["error"] as? String == "unknown key \"other\"")
            #expect(told["input"] as? [String: String] == ["dir": "TV", "other": "x"])
            #expect(told["path"] as? String == "vfs/refresh" && told["status"] as? Int == 500)
            let broken = try call("/rc/noop", "{")
            #expect(broken.status == 400)
            #expect(try json(broken)["status"] as? Int == 400)
            let echo = try json(try RawAnswer(serving.port, "POST", "/rc/noop?a=b"))
            #expect(echo as? [String: String] == ["a": "b"])
            let version = try json(try RawAnswer(serving.port, "POST", "/core/version"))
            #expect((version["version"] as? String)?.hasPrefix("v") == true && version["os"] as? String == "linux")
            #expect((version["decomposed"] as? [Int])?.count == 3)
            let statistics = try json(try RawAnswer(serving.port, "POST", "/vfs/stats"))
            #expect((statistics["diskCache"] as? [String: Any])?["bytesUsed"] is Int)
        }
    }

    @Test("The command of on-change hears of news in a folder that no program has open")
    func news() throws {
        let file = "/tmp/reelfs-news-\(getpid())"
        defer { unlink(file) }
        try withLibrary(["--on-change", "tee -a \(file)"]) { root, serving, token, _ in
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/A%20B/").status == 200)
            try writeFile(root + "/TV/A B/two.mkv", [1])
            mkdir(root + "/TV/A B/Extras", 0o755)
            let login = ["Authorization: Bearer \(token)"]
            #expect(try RawAnswer(serving.port, "POST", "/vfs/refresh?dir=TV/A%20B", login).status == 200)
            let told = { (try? readWhole(file)).map { String(decoding: $0, as: UTF8.self) } }
            let all = "TV/A B/Extras/\nTV/A B/two.mkv\n"
            #expect(eventually(within: .seconds(15)) { told() == all }, "\(told() ?? "nothing")")
        }
    }

    @Test("A resolver, a token command and the command of on-change get no descriptor of the daemon's")
    func descriptors() throws {
        let folder = "/tmp/reelfs-descriptors-\(getpid())"
        mkdir(folder, 0o700)
        defer { removeTree(folder) }
        // The shell's own for the script closes on exec, so a further program lists them.
        let script = """
            read -r line
            sh -c 'readlink /proc/$$/fd/*' > \(folder)/$1
            case $1 in
            resolver) printf '%s' "$line" | sed 's/.*"url":\\("[^"]*"\\).*/{"url":\\1}/' ;;
            token) echo abc ;;
            esac
            """
        try writeFile(folder + "/script", script.utf8)
        let command = { (name: String) in "/bin/sh \(folder)/script \(name)" }
        let options = ["--resolver", command("resolver"), "--token-command", command("token")]
        try withLibrary(options + ["--on-change", command("change")]) { root, serving, token, _ in
            // One client is connected all the time.
            let client = try RawConnection(serving.port)
            defer { withExtendedLifetime(client) {} }
            #expect(try RawAnswer(serving.port, "GET", "/files/Films/film.mkv").status == 200)
            try writeFile(root + "/Films/two.mkv", [1])
            let login = ["Authorization: Bearer \(token)"]
            #expect(try RawAnswer(serving.port, "POST", "/vfs/refresh?dir=Films", login).status == 200)
            for name in ["resolver", "token", "change"] {
                let told = { contents(of: "\(folder)/\(name)") }
                #expect(eventually(within: .seconds(15)) { told().contains("pipe:") }, "\(name)")
                let others = told().split(separator: "\n").filter { !$0.hasPrefix("pipe:") && !$0.hasPrefix(folder) }
                #expect(others.isEmpty, "\(name): \(others)")
            }
        }
    }

    @Test("rclone rc talks to it, with the token as a header or as a password")
    func rclone() throws {
        try withLibrary { root, serving, token, scene in
            let url = ["--url", serving.address, "--config", scene.work("none")]
            let run = { (words: [String]) in try ChildProcess.run(["rclone", "rc"] + url + words) }
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/A%20B/").status == 200)
            let refused = try run(["vfs/refresh", "dir=TV"])
            #expect(refused.status != 0 && refused.errors.contains("401"), "\(refused)")
            try writeFile(root + "/TV/A B/two.mkv", [1])
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/A%20B/two.mkv").status == 404)
            let end = try run(["--user", "reelfs", "--pass", token, "vfs/refresh", "dir=TV/A B", "recursive=true"])
            #expect(end.status == 0 && end.output.contains("\"TV/A B\""), "\(end)")
            #expect(try RawAnswer(serving.port, "GET", "/files/TV/A%20B/two.mkv").status == 200)
            let forgotten = try run(["--header", "Authorization: Bearer \(token)", "vfs/forget", "dir=TV"])
            #expect(forgotten.status == 0 && forgotten.output.contains("forgotten"), "\(forgotten)")
            for command in ["core/version", "rc/noop", "vfs/stats"] { #expect(try run([command]).status == 0) }
        }
    }
}

extension EndToEnd {
    @Suite struct ManagerMountTests {
        @Test("After a manager's call the kernel shows the new file and forgets the one that has gone")
        func kernel() throws {
            try withScene { scene in
                let root = scene.work("root")
                for folder in ["", "/TV"] { mkdir(root + folder, 0o755) }
                try writeFile(root + "/TV/old.mkv", [1])
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let socket = scene.work("listen")
                let mount = try scene.mount(server.url, ["-o", "refresh=1h,listen=unix:\(socket)"])
                #expect(try names(in: mount.file("TV")) == ["old.mkv"])
                #expect(access(mount.file("TV/old.mkv"), F_OK) == 0 && access(mount.file("TV/new.mkv"), F_OK) != 0)
                rename(root + "/TV/old.mkv", root + "/TV/new.mkv")
                let token = String(decoding: try readWhole(scene.cache + "/listen.token"), as: UTF8.self).dropLast()
                let end = try ChildProcess.run([
                    "curl", "-fsS", "--unix-socket", socket, "-H", "Authorization: Bearer \(token)", "-d", "dir=TV",
                    "http://localhost/vfs/forget",
                ])
                #expect(end.status == 0, "\(end)")
                // The kernel hears of it beside the answer.
                #expect(
                    eventually {
                        access(mount.file("TV/old.mkv"), F_OK) != 0 && access(mount.file("TV/new.mkv"), F_OK) == 0
                    })
                #expect(try names(in: mount.file("TV")) == ["new.mkv"])
            }
        }
    }
}

extension EndToEnd.ManagerMountTests {
    /// A folder that changes, and fails, as the test says.
    private func withLibrary(
        _ options: String, _ body: (Mounted, @escaping ((inout ChangingFolder) -> Void) -> Void, Scene) throws -> Void
    ) throws {
        try withChangingFolder(["one.mkv"], length: 10) { server, change in
            try withScene { scene in
                let options = options.replacingOccurrences(of: "WORK", with: scene.work(""))
                try body(try scene.mount(server.address, ["-o", options]), change, scene)
            }
        }
    }

    @Test("The command of on-change gets the changed paths, without a shell, and nothing where nothing changed")
    func onChange() throws {
        try withLibrary("refresh=1h,on-change=tee -a WORKnews;x") { (mount, change, scene) throws in
            let refresh = { try ChildProcess.run([program, "refresh", mount.path]).status }
            let news = { (try? readWhole(scene.work("news;x"))).map { String(decoding: $0, as: UTF8.self) } }
            #expect(try refresh() == 0)
            change { $0.names = ["$(id) & new.mkv", "one.mkv"] }
            #expect(try refresh() == 0)
            #expect(eventually(within: .seconds(15)) { news() == "$(id) & new.mkv\n" }, "\(news() ?? "nothing")")
            #expect(try refresh() == 0)
            change { $0.names = ["two.mkv"] }
            #expect(try refresh() == 0)
            let all = "$(id) & new.mkv\n$(id) & new.mkv\none.mkv\ntwo.mkv\n"
            #expect(eventually(within: .seconds(15)) { news() == all }, "\(news() ?? "nothing")")
        }
    }

    @Test("The anchor is there while the tree can be trusted, goes with a listing that fails, and comes back")
    func anchor() throws {
        try withLibrary("refresh=0,timeout=10,anchor=mounted.ok") { (mount, change, _) throws in
            let isThere = {
                // A look asks for the listing.
                _ = try? names(in: mount.path)
                return access(mount.file("mounted.ok"), F_OK) == 0
            }
            #expect(isThere())
            #expect(try names(in: mount.path) == ["mounted.ok", "one.mkv"])
            let status = try attributes(mount.file("mounted.ok"))
            #expect(status.st_size == 0 && status.st_mode & S_IFMT == S_IFREG)
            #expect(try readWhole(mount.file("mounted.ok")).isEmpty)
            change { $0.status = 503 }
            #expect(eventually(within: .seconds(60)) { !isThere() })
            #expect(eventually(within: .seconds(60)) { (try? names(in: mount.path)) == ["one.mkv"] })
            change { $0.status = 200 }
            #expect(eventually(within: .seconds(60)) { isThere() })
            #expect(try attributes(mount.file("mounted.ok")).st_ino == status.st_ino)
        }
    }
}
