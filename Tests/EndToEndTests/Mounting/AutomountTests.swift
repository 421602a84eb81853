import Glibc
import TestKit
import Testing

/// Debian's `automount` and the kernel's part of it. In CI a lack must not look like a pass.
private let automountIsUsable =
    geteuid() == 0 && access("/usr/sbin/automount", X_OK) == 0 && access("/dev/autofs", F_OK) == 0
    || getenv("CI").map { String(cString: $0) } == "true"

extension EndToEnd {
    /// automount(8) with its three kinds of maps.
    @Suite(.enabled(if: automountIsUsable, "needs root and the package autofs")) struct AutomountTests {
        static let film = FileOrigin(length: 100_000)

        /// Keys below `indirect`, any name below `wild`, and the path `direct`.
        private func withAutomount(timeout: Int, _ body: (MountNamespace, ScriptedServer) throws -> Void) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let folder = space.scene.folder
                let url = #"http\://127.0.0.1\:"#
                let origin = "\(url)\(server.port)"
                try space.write(
                    ["indirect /etc/auto.indirect", "wild /etc/auto.wild"].map {
                        "\(folder)/\($0) --timeout=\(timeout)\n"
                    }
                    .joined() + "/- /etc/auto.direct --timeout=\(timeout)\n", to: "/etc/auto.test")
                try space.write(
                    "films -fstype=reelfs,ro,nosuid,cache_size=50M :\(origin)/films/\n"
                        + "songs -fstype=fuse.reelfs,ro :\(origin)/songs/\ndead -fstype=reelfs,ro,timeout=120 :\(url)1/\n",
                    to: "/etc/auto.indirect")
                try space.write("* -fstype=reelfs,ro :\(origin)/wild/&/\n", to: "/etc/auto.wild")
                try space.write("\(folder)/direct -fstype=reelfs,ro :\(origin)/direct/\n", to: "/etc/auto.direct")
                // A process group of its own: to those who share automount's, autofs shows what is below.
                let child = try space.start(["setsid", "/usr/sbin/automount", "--foreground", "/etc/auto.test"])
                #expect(eventually { autofs(space).count == 3 }, "\(child.said)")
                try body(space, server)
                child.signal(SIGTERM)
                let end = try child.wait(within: .seconds(20))
                #expect(end.status == 0, "\(end)")
                #expect(space.mounts.isEmpty && autofs(space).isEmpty)
            }
        }

        private func autofs(_ space: MountNamespace) -> [Substring] {
            (contents(space.table) ?? "").split(separator: "\n")
                .filter { $0.contains(" - autofs ") && $0.contains(space.scene.folder) }
        }

        private func look(_ space: MountNamespace, _ name: String) throws -> ChildProcess.End {
            // A third of the deadline of a dead key.
            try space.run(["ls", space.scene.folder + "/" + name], within: .seconds(40))
        }

        @Test("Direct, indirect and wildcard maps mount at the first look, with the source of the map")
        func maps() throws {
            try withAutomount(timeout: 300) { (space, server) throws -> Void in
                let all = ["indirect/films", "indirect/songs", "wild/one", "wild/two", "direct"]
                for name in all {
                    let end = try look(space, name)
                    #expect(end.output == "film.mkv\n", "\(name): \(end)")
                }
                #expect(space.mounts.map(\.mountpoint) == all.map { space.scene.folder + "/" + $0 })
                let paths = ["films/", "songs/", "wild/one/", "wild/two/", "direct/"]
                #expect(space.mounts.map(\.source) == paths.map { server.address + $0 })
                #expect(Self.film.difference(inFile: space.outside(space.scene.folder + "/wild/two/film.mkv")) == nil)
            }
        }

        @Test("What nobody looks at expires, and comes back with the next look")
        func expiry() throws {
            try withAutomount(timeout: 1) { (space, server) throws -> Void in
                for round in 0..<3 {
                    for name in ["indirect/films", "direct"] {
                        #expect(try look(space, name).output == "film.mkv\n", "round \(round): \(name)")
                    }
                    #expect(eventually(within: .seconds(20)) { space.mounts.isEmpty }, "round \(round)")
                }
            }
        }

        @Test("A dead origin fails its own key, soon, and no other")
        func deadOrigin() throws {
            try withAutomount(timeout: 300) { (space, server) throws -> Void in
                #expect(try look(space, "indirect/dead").status == 2)
                #expect(try look(space, "indirect/films").output == "film.mkv\n")
                server.stop()
                #expect(try look(space, "indirect/films").output == "film.mkv\n")
            }
        }

        @Test("After kill -9 the next look mounts again")
        func killed() throws {
            try withAutomount(timeout: 300) { (space, server) throws -> Void in
                for name in ["indirect/films", "direct", "wild/one"] {
                    let place = space.scene.folder + "/" + name
                    for _ in 0..<2 {
                        #expect(try look(space, name).output == "film.mkv\n", "\(name)")
                        kill(try #require(space.process("daemon", of: place)), SIGKILL)
                        #expect(eventually { !space.mounts.contains { $0.mountpoint == place } }, "\(name)")
                    }
                    #expect(try look(space, name).output == "film.mkv\n", "\(name)")
                }
            }
        }
    }
}
