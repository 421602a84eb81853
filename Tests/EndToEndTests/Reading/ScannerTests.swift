import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Programs that keep a database of a library: what has not changed they read once, also after a remount.
    @Suite struct ScannerTests {
        private static let (folders, songs) = (3, 4)

        /// Short songs on a real server: one lists exact lengths and minutes, the other rounded ones.
        private func withLibrary(
            _ kind: RealServer.Kind, _ body: (Scene, RealServer, Mounted) throws -> Void
        ) throws {
            guard kind.isInstalled else { try Test.cancel("\(kind.rawValue) is not installed") }
            try withScene { scene in
                mkdir(scene.work("root"), 0o755)
                let song = scene.work("song.mp3")
                let tone = ["-f", "lavfi", "-i", "sine=r=22050", "-t", "2", "-b:a", "32k", "-metadata", "title=A"]
                #expect(try ChildProcess.run(["ffmpeg", "-v", "error"] + tone + [song]).status == 0)
                let bytes = try readWhole(song)
                for folder in 0..<Self.folders {
                    mkdir(scene.work("root/\(folder)"), 0o755)
                    for number in 0..<Self.songs {
                        let path = scene.work("root/\(folder)/\(number).mp3")
                        try writeFile(path, bytes)
                        // Seconds within a minute, which a listing does not show.
                        let date = timespec(tv_sec: 1_700_000_035 + number, tv_nsec: 0)
                        #expect(utimensat(AT_FDCWD, path, [date, date], 0) == 0)
                    }
                }
                let server = try RealServer(kind, root: scene.work("root"), place: scene.work("server"))
                defer { server.stop() }
                try body(scene, server, try scene.mount(server.url))
            }
        }

        /// What the mount has asked for so far: requests if the server logs them, and bytes. A version is confirmed
        /// again after five seconds, which a slow scan takes: the answers 304 do not count.
        private struct Asked: Equatable {
            var requests: Int
            var bytes: Substring

            init(_ server: RealServer, _ mount: Mounted) throws {
                let status = try ChildProcess.run([program, "status", mount.path, "--json"]).output
                let start = try #require(status.firstRange(of: "\"bytesFromOrigin\":")).upperBound
                bytes = status[start...].prefix { $0.isNumber }
                requests = server.requests.count { !$0.hasPrefix("304 ") }
            }
        }

        private func remounted(_ mount: Mounted, _ server: RealServer, _ scene: Scene) throws -> Mounted {
            try mount.unmount()
            return try scene.mount(server.url)
        }

        @Test(
            "mpd's second scan reads nothing, nor does its scan after a remount",
            arguments: [RealServer.Kind.nginx, .apache2])
        func mpd(_ kind: RealServer.Kind) throws {
            guard isProgram("mpd"), isProgram("mpc") else { try Test.cancel("mpd or mpc is not installed") }
            try withLibrary(kind) { (scene, server, mount) throws in
                var mount = mount
                let mpd = try MusicDaemon(of: mount.path, in: scene)
                defer { mpd.stop() }
                #expect(try mpd.scan() == Self.folders * Self.songs)
                var before = try Asked(server, mount)
                #expect(try mpd.scan() == 0)
                #expect(try Asked(server, mount) == before)
                mount = try remounted(mount, server, scene)
                before = try Asked(server, mount)
                #expect(try mpd.scan() == 0)
                #expect(try Asked(server, mount) == before)
                #expect(try mpd.songs() == Self.folders * Self.songs)
            }
        }

        @Test(
            "minidlna's second scan finds no change and reads nothing, nor does its scan after a remount",
            arguments: [RealServer.Kind.nginx, .apache2])
        func minidlna(_ kind: RealServer.Kind) throws {
            guard isProgram("minidlnad") else { try Test.cancel("minidlna is not installed") }
            try withLibrary(kind) { (scene, server, mount) throws in
                var mount = mount
                #expect(try minidlna(mount, scene, [], until: "Scanning \(mount.path) finished (12 files)!"))
                let unchanged = "Rescan completed. (no changes)"
                var before = try Asked(server, mount)
                #expect(try minidlna(mount, scene, ["-r"], until: unchanged))
                #expect(try Asked(server, mount) == before)
                mount = try remounted(mount, server, scene)
                before = try Asked(server, mount)
                #expect(try minidlna(mount, scene, ["-r"], until: unchanged))
                #expect(try Asked(server, mount) == before)
            }
        }

        /// Runs it in the foreground until it has written the line. - Returns: false where it writes another first.
        private func minidlna(
            _ mount: Mounted, _ scene: Scene, _ words: [String], until line: String
        ) throws -> Bool {
            let place = scene.work("minidlna")
            mkdir(place, 0o755)
            let port = try freePort()
            try writeFile(
                place + "/conf",
                """
                media_dir=\(mount.path)
                db_dir=\(place)/db
                log_dir=\(place)
                port=\(port)
                network_interface=lo
                inotify=no
                log_level=general,scanner=debug

                """.utf8)
            let process = try ChildProcess(
                ["minidlnad", "-d", "-f", place + "/conf", "-P", place + "/pid"] + words, directory: place)
            defer {
                process.signal(SIGTERM)
                _ = try? process.wait(within: .seconds(10))
            }
            var said = ""
            #expect(
                eventually(within: .seconds(30)) {
                    said = process.said.output + process.said.errors
                    return ["finished (", "Rescan completed", "Rescan changes"].contains { said.contains($0) }
                        || process.poll() != nil
                })
            // Another process of it writes its database, and notes at the end that it is whole.
            #expect(eventually(within: .seconds(30)) { userVersion(place + "/db/files.db") != 0 })
            let lines = said.split(separator: "\n").filter { !$0.contains("ssdp") }
            if !said.contains(line) { Issue.record("\(lines.joined(separator: "\n").suffix(2000))") }
            return said.contains(line)
        }
    }
}

/// The number that a program gives to a database of SQLite (Database File Format, offset 60); 0: none.
private func userVersion(_ path: String) -> Int {
    guard let file = try? OpenDescriptor(path), let bytes = try? file.bytes(at: 60, count: 4) else { return 0 }
    return bytes.reduce(0) { $0 << 8 | Int($1) }
}

/// The real mpd in the foreground, with a database of its own.
private final class MusicDaemon {
    private let place: String
    private let process: ChildProcess

    init(of music: String, in scene: Scene) throws {
        place = scene.work("mpd")
        mkdir(place, 0o755)
        mkdir(place + "/playlists", 0o755)
        try writeFile(
            place + "/conf",
            """
            music_directory "\(music)"
            playlist_directory "\(place)/playlists"
            db_file "\(place)/db"
            state_file "\(place)/state"
            log_file "\(place)/log"
            log_level "verbose"
            bind_to_address "\(place)/socket"
            audio_output {
                type "null"
                name "null"
            }

            """.utf8)
        process = try ChildProcess(["mpd", "--no-daemon", place + "/conf"], directory: place)
        let socket = place + "/socket"
        #expect(eventually(within: .seconds(20)) { access(socket, F_OK) == 0 }, "mpd does not start")
        // It looks for news once when it finds no database.
        try wait(for: "update: finished", after: 0)
    }

    /// Looks for news, all of it for the first time. - Returns: songs that were read.
    func scan() throws -> Int {
        let before = log.count
        let isFirst = !log.contains("command returned")
        let end = try ChildProcess.run(["mpc", "-h", place + "/socket", "update"])
        #expect(end.status == 0, "\(end.errors)")
        try wait(for: "update: finished", after: before)
        return (isFirst ? log[...] : log.dropFirst(before)).split(separator: "\n").count {
            $0.contains("update: added ") || $0.contains("update: updating ")
        }
    }

    /// The songs in its database.
    func songs() throws -> Int? {
        let end = try ChildProcess.run(["mpc", "-h", place + "/socket", "stats"])
        let line = end.output.split(separator: "\n").first { $0.hasPrefix("Songs:") }
        return line.flatMap { Int($0.dropFirst(6).filter { $0.isNumber }) }
    }

    func stop() {
        process.signal(SIGTERM)
        _ = try? process.wait(within: .seconds(10))
    }

    private var log: String { contents(place + "/log") ?? "" }

    private func wait(for line: String, after count: Int) throws {
        let isThere = eventually(within: .seconds(30)) { self.log.dropFirst(count).contains(line) }
        try #require(isThere, "\(log.suffix(2000))")
    }
}
