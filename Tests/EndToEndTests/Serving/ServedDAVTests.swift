import Glibc
import ReelCore
import TestKit
import Testing

/// The tree at `/dav/`, for WebDAV clients.
@Suite struct ServedDAVTests {
    /// The listing of apache2 rounds lengths.
    @Test(
        "rclone sees and copies the local tree by WebDAV, with the login alone, and writes nothing",
        arguments: [RealServer.Kind.nginx, .apache2])
    func rclone(_ origin: RealServer.Kind) throws {
        guard isProgram("rclone") else { try Test.cancel("rclone is not installed") }
        try withServedTree(by: origin) { scene, root, serving in
            func rclone(_ words: [String], user: String = "ann") throws -> ChildProcess.End {
                let password = try ChildProcess.run(["rclone", "obscure", "open sesame"]).output
                return try ChildProcess.run(
                    ["rclone"] + words + [
                        "--webdav-url", serving.address + "dav/", "--webdav-user", user,
                        "--webdav-pass", String(password.dropLast()), "--config", scene.work("rclone.conf"),
                        "--retries", "1", "--low-level-retries", "1",
                    ], within: .seconds(60))
            }
            let copied = try rclone(["copy", "--create-empty-src-dirs", ":webdav:", scene.work("copy")])
            #expect(copied.status == 0, "\(copied.errors)")
            try expectSame(root, scene.work("copy"))
            // Lengths and dates of the listing.
            let list = { (end: ChildProcess.End) in end.output.split(separator: "\n").sorted() }
            let format = ["lsf", "-R", "--format", "pst"]
            let theirs = try ChildProcess.run(["rclone"] + format + ["--files-only", root])
            let mine = list(try rclone(format + ["--files-only", ":webdav:"]))
            #expect(mine.filter { !$0.hasPrefix("empty.txt") } == list(theirs).filter { !$0.hasPrefix("empty.txt") })
            #expect(try rclone(["lsf", ":webdav:"], user: "bob").status != 0)
            #expect(try rclone(["deletefile", ":webdav:plain.mp4"]).status != 0)
            #expect(try rclone(["copyto", root + "/plain.mp4", ":webdav:new.mp4"]).status != 0)
            #expect(access(root + "/plain.mp4", F_OK) == 0)
        }
    }

    @Test("A file alone has the tag, length and type of its GET; what is not there is 404")
    func oneFile() throws {
        try withServedTree { _, _, serving in
            let login = "Authorization: Basic YW5uOm9wZW4gc2VzYW1l"
            let find = { (path: String, depth: String) in
                try RawAnswer(serving.port, "PROPFIND", path, [login, "Depth: " + depth])
            }
            let head = try RawAnswer(serving.port, "HEAD", "/dav/plain.mp4", [login])
            let tag = try #require(head.headers["etag"]).split(separator: "\"").joined(separator: "&quot;")
            let answer = try find("/dav/plain.mp4", "0")
            let text = String(decoding: answer.body, as: UTF8.self)
            #expect(answer.status == 207 && head.status == 200)
            let own = try find("/dav/%70lain.mp4", "0")
            #expect(String(decoding: own.body, as: UTF8.self).contains("<D:href>/dav/%70lain.mp4</D:href>"))
            #expect(tag.isEmpty == false && text.contains("<D:getetag>") && text.contains(tag), "\(text)")
            let length = try #require(head.headers["content-length"])
            #expect(text.contains("<D:getcontentlength>\(length)<"), "\(text)")
            #expect(text.contains("<D:getcontenttype>\(try #require(head.headers["content-type"]))<"), "\(text)")
            #expect(text.contains("<D:getlastmodified>\(try #require(head.headers["last-modified"]))<"), "\(text)")
            #expect(try find("/dav/none", "0").status == 404)
            #expect(try find("/dav/plain.mp4/", "0").status == 404)
            #expect(try find("/dav/", "infinity").status == 403)
            #expect(try find("/files/", "1").status == 405)
            #expect(try RawAnswer(serving.port, "PROPFIND", "/dav/", ["Depth: 0"]).status == 401)
            #expect(try RawAnswer(serving.port, "OPTIONS", "/dav/", [login]).headers["dav"] == "1")
            let foreign = ["Depth: 1", login, "Sec-Fetch-Site: cross-site"]
            #expect(try RawAnswer(serving.port, "PROPFIND", "/dav/", foreign).status == 403)
            let long = String(repeating: " ", count: (64 << 10) + 1)
            #expect(try RawAnswer(serving.port, "PROPFIND", "/dav/", [login, "Depth: 0"], body: long).status == 413)
            #expect(try RawAnswer(serving.port, "GET", "/dav/sub", [login]).headers["location"] == "/dav/sub/")
        }
    }
}

extension EndToEnd {
    /// A mount of what another reelfs serves by WebDAV.
    @Suite struct ServedDAVMountTests {
        @Test("A mount of the served WebDAV collection is the local tree")
        func sameTree() throws {
            try withServedTree { scene, root, serving in
                let source = "dav://127.0.0.1:\(serving.port)/dav/"
                let mount = try scene.mount(
                    source, ["-o", "credentials=" + scene.work("login"), "--cache-dir", scene.work("other")])
                try expectSame(root, mount.path)
                for name in ["plain.mp4", "sub/same name.bin"] {
                    let dates = try [root + "/" + name, mount.file(name)].map { try attributes($0).st_mtim.tv_sec }
                    #expect(dates[0] == dates[1])
                }
                try mount.unmount()
            }
        }
    }
}

/// Calls with a tree of odd names, and `reelfs serve` of it for the user `ann` with the password `open sesame`.
private func withServedTree(
    by kind: RealServer.Kind = .nginx, _ body: (Scene, String, Serving) throws -> Void
) throws {
    guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
    try withScene { scene in
        let root = scene.work("root")
        try makeOddTree(root, folder: "100% #1?", names: EndToEnd.ServerTests.oddNames)
        // A full minute, as listings show no seconds.
        let dated = try ChildProcess.run(["find", root, "-exec", "touch", "-d", "@1700000040", "{}", "+"])
        #expect(dated.status == 0, "\(dated.errors)")
        let login = scene.work("login")
        try writeFile(login, "username=ann\npassword=open sesame\n".utf8)
        chmod(login, 0o600)
        let server = try RealServer(kind, root: root, place: scene.work("server"))
        defer { server.stop() }
        try withServing(server.url, cache: scene.cache, ["--listen-credentials", login]) { try body(scene, root, $0) }
    }
}
