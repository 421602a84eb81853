import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Whole trees of real servers.
    @Suite struct ServerTests {
        /// Names that a URL, an HTML page or a shell would like to read otherwise.
        static let oddNames = [
            "plain.mp4", "large film.mkv", "two  spaces.txt", " leading space", "Füße und Straße.mp3",
            "日本語のとても長い名前のファイルで表示では切られてしまうもの.mp4", "100%.txt", "50%25.txt", "%2F.txt", "a#b.txt", "what?.txt",
            "?C=N;O=D", "a&b.txt", "&amp;.txt", "<tag>.txt", "\"quoted\".txt", "it's.txt", "a+b.txt", "colon:x.txt",
            "semi;colon.txt", "[brackets] {braces}.txt", "~tilde", "Parent Directory", "javascript:x",
            "l" + String(repeating: "o", count: 240) + "ng.txt",
        ]

        @Test("A served tree is the local tree, name by name and byte by byte", arguments: RealServer.Kind.allCases)
        func sameTree(_ kind: RealServer.Kind) throws {
            guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
            try withScene { scene in
                let root = scene.work("root")
                try makeOddTree(root, folder: "colon:folder", names: Self.oddNames)
                let server = try RealServer(kind, root: root, place: scene.work("server"))
                defer { server.stop() }
                var mount = try scene.mount(server.url)
                try expectSame(root, mount.path)
                try mount.unmount()
                mount = try scene.mount(server.url)
                try expectSame(root, mount.path)
            }
        }

        @Test("A server without ranges is read right, the second time without it")
        func withoutRanges() throws {
            let film = FileOrigin(length: 5 << 20 + 77)
            try withScene { scene in
                mkdir(scene.work("root"), 0o755)
                try writeFile(scene.work("root/film.mkv"), film.whole)
                let server = try RealServer(.python3, root: scene.work("root"), place: scene.work("server"))
                let mount = try scene.mount(server.url)
                do {
                    defer { server.stop() }
                    // Its tail first: that has to wait for all before it.
                    let file = try OpenDescriptor(mount.file("film.mkv"))
                    let end = ByteRange(film.length - 1000, film.length)
                    #expect(try file.bytes(at: end.lower, count: 2000) == film.expectedBytes(end))
                    #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                }
                mount.dropPages("film.mkv")
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
            }
        }

        @Test("Ten thousand entries of nginx are listed with one request and little memory")
        func manyEntries() throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                mkdir(root + "/many", 0o755)
                for index in 0..<10_000 {
                    let descriptor = open(
                        "\(root)/many/film number \(index).mkv", O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
                    ftruncate(descriptor, off_t(index))
                    close(descriptor)
                }
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let mount = try scene.mount(server.url)
                #expect(try names(in: mount.path) == ["many"])
                let before = try #require(memory("VmHWM", of: mount.pid))
                let end = try ChildProcess.run(["ls", "-l", mount.file("many")])
                #expect(end.status == 0, "\(end.errors)")
                let lines = end.output.split(separator: "\n")
                #expect(lines.count == 10_001)
                #expect(lines.contains { $0.contains(" 4321 ") && $0.hasSuffix("film number 4321.mkv") })
                // nginx writes its log when an answer is over, which may be after the client has it.
                eventually { server.requests.contains { $0.contains("/many/") } }
                let requests = server.requests.filter { $0.contains("/many") }
                #expect(requests.count == 1, "\(requests.prefix(5))")
                let grown = try #require(memory("VmHWM", of: mount.pid)) - before
                #expect(grown < 16 << 10, "\(grown) KiB")
            }
        }
    }
}

/// A tree of odd names: a file each in the root, and a larger one in each folder. - Parameter folder: an odd name.
func makeOddTree(_ root: String, folder: String, names: [String]) throws {
    let folders = ["sub", "sub/deeper & deeper", "Ordner mit Umläuten", folder]
    for folder in [""] + folders.map({ "/" + $0 }) { #expect(mkdir(root + folder, 0o755) == 0) }
    for (index, name) in names.enumerated() {
        try writeFile("\(root)/\(name)", GeneratedBytes(seed: UInt64(index)).bytes(ByteRange(0, 100 + Int64(index))))
    }
    for (index, folder) in folders.enumerated() {
        let bytes = GeneratedBytes(seed: UInt64(100 + index)).bytes(ByteRange(0, 1 << 20 + 1))
        try writeFile("\(root)/\(folder)/same name.bin", bytes)
    }
    try writeFile(root + "/empty.txt", [])
}

func expectSame(_ root: String, _ path: String) throws {
    let end = try ChildProcess.run(["diff", "-r", root, path], within: .seconds(30))
    #expect(end.status == 0, "\(end.output)\(end.errors)")
}
