import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// `--cache-key`.
    @Suite struct CacheKeyMountTests {
        @Test("What was read of a library is not fetched again from another host", arguments: ["path", "name"])
        func host(_ mode: String) throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            let (old, new) = (FileOrigin(length: 3_000_001), FileOrigin(length: 500_000, seed: 2))
            try withScene { scene in
                let root = scene.work("root")
                for folder in [root, root + "/films"] { mkdir(folder, 0o755) }
                try writeFile(root + "/films/old.mkv", old.whole)
                try writeFile(root + "/films/new.mkv", new.whole)
                let first = try RealServer(.nginx, root: root, place: scene.work("first"))
                let second = try RealServer(.nginx, root: root, place: scene.work("second"))
                defer {
                    first.stop()
                    second.stop()
                }
                let mount = try scene.mount(first.url + "films/", ["--cache-key", mode])
                #expect(old.difference(inFile: mount.file("old.mkv")) == nil)
                try mount.unmount()
                #expect(eventually { first.bodyBytes(of: "/films/old.mkv") >= old.length })
                let again = try scene.mount("http://localhost:\(second.port)/films/", ["--cache-key", mode])
                #expect(old.difference(inFile: again.file("old.mkv")) == nil)
                #expect(new.difference(inFile: again.file("new.mkv")) == nil)
                try again.unmount()
                // A request is in the log once it has ended.
                #expect(eventually { second.bodyBytes(of: "/films/new.mkv") >= new.length })
                #expect(second.bodyBytes(of: "/films/old.mkv") == 0, "\(second.requests)")
            }
        }
    }
}

extension RealServer {
    /// The bytes of all answers about a resource.
    fileprivate func bodyBytes(of path: String) -> Int64 {
        requests.map { $0.split(separator: " ") }.filter { $0.last == path[...] }.reduce(0) { $0 + (Int64($1[1]) ?? 0) }
    }
}
