import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// What a mount reports of its requests: in a file, and to `reelfs explain`.
    @Suite struct ExplainTests {
        @Test(
            "The request log has a line a request, and explain lists a file's: why, for which program, what came")
        func log() throws {
            let film = FileOrigin(length: 8 << 20)
            let server = try ScriptedServer { request in
                request.target.hasPrefix("/list.m3u")
                    ? ServerStep.answer(
                        200, [("Content-Type", "audio/x-mpegurl")], body: "#EXTM3U\n/film.mkv?token=s3cret\n")
                    : film.answer(request)
            }
            defer { server.stop() }
            try withScene { scene in
                let log = scene.work("requests.json")
                let mount = try scene.mount(server.url("/list.m3u?key=s3cret").text, ["--request-log", log])
                let path = mount.file("film.mkv")
                let command = ["dd", "if=" + path, "of=/dev/null", "bs=64k", "skip=64", "count=4", "status=none"]
                #expect(try ChildProcess.run(command).status == 0)
                // A request is written down when it has ended.
                func demands() -> [String] {
                    lines(of: log).filter { $0.contains("\"program\":\"dd\"") && $0.contains("\"why\":\"demand\"") }
                }
                #expect(eventually(within: .seconds(20)) { !demands().isEmpty })
                let demand = try #require(demands().first)
                for part in [
                    "\"from\":\"origin\"", "\"status\":206", "\"host\":\"http://127.0.0.1:",
                ] {
                    #expect(demand.contains(part), "\(demand)")
                }
                var status = stat()
                #expect(lstat(log, &status) == 0 && status.st_mode & 0o777 == 0o600)
                #expect(lines(of: log).contains { $0.contains("\"why\":\"listing\"") })

                let told = try ChildProcess.run([program, "explain", path])
                #expect(told.status == 0, "\(told.errors)")
                let rows = told.output.split(separator: "\n").map { String($0) }
                #expect(rows[0].hasPrefix("film.mkv: ") && rows[0].contains("of 8.0 MiB cached"), "\(told.output)")
                // What was read, the sum of its program, and the request itself with the place that it asked for.
                #expect(rows[1].hasPrefix("  read: ") && rows[2].hasPrefix("  fetched: "), "\(told.output)")
                #expect(rows.contains { $0.contains("demand") && $0.hasSuffix("  dd") }, "\(told.output)")
                let words = rows.map { $0.split(separator: " ").dropFirst().prefix(4).joined(separator: " ") }
                #expect(words.contains("demand dd 4.0 MiB"), "\(told.output)")
                let json = try ChildProcess.run([program, "explain", "--json", path]).output
                #expect(json.contains("\"length\":\(8 << 20)"), "\(json)")
                #expect(json.contains("\"range\":[\(4 << 20),"), "\(json)")
                let programs = try ChildProcess.run([program, "status", "--programs", mount.path]).output
                #expect(programs.split(separator: "\n").last?.hasSuffix("      1  dd") == true, "\(programs)")
                #expect(![told.output, json, lines(of: log).joined()].contains { $0.contains("s3cret") })
            }
        }

        @Test("SIGHUP has the request log opened again, and the mount goes on")
        func reopened() throws {
            let server = try ScriptedServer(["/film.mkv": FileOrigin(length: 5000)])
            defer { server.stop() }
            try withScene { scene in
                let log = scene.work("requests.json")
                let mount = try ForegroundMount(scene, server.url("/film.mkv").text, ["--request-log", log])
                // From here on it serves.
                try #require(eventually { mount.log.contains("mounted") && !lines(of: log).isEmpty })
                try #require(rename(log, log + ".old") == 0)
                mount.child.signal(SIGHUP)
                #expect(eventually { mount.log.contains("the request log was opened again") }, "\(mount.log)")
                #expect(try readWhole(mount.file("film.mkv")).count == 5000)
                #expect(eventually { !lines(of: log).isEmpty })
                mount.child.signal(SIGTERM)
                #expect(try mount.child.wait().status == 0)
            }
        }

        @Test("SIGHUP ends a mount in the foreground of a terminal, also with a request log")
        func terminalCloses() throws {
            let server = try ScriptedServer(["/film.mkv": FileOrigin(length: 5000)])
            defer { server.stop() }
            try withScene { scene in
                let words = [
                    program, "mount", server.url("/film.mkv").text, scene.mountpoint, "--foreground", "--cache-dir",
                    scene.cache, "--request-log", scene.work("requests.json"),
                ]
                let terminal = try PseudoTerminal(words + scene.keyOptions, columns: 80, rows: 24)
                #expect(terminal.wait(for: "mounted") != nil)
                #expect(try readWhole(scene.mountpoint + "/film.mkv").count == 5000)
                kill(terminal.pid, SIGHUP)
                #expect(terminal.end() == 0)
                #expect(!mountTable().contains { $0.mountpoint == scene.mountpoint })
            }
        }

        @Test("A signal that the caller ignores, as nohup(1) does, ends no mount")
        func ignoredSignal() throws {
            let server = try ScriptedServer(["/film.mkv": FileOrigin(length: 5000)])
            defer { server.stop() }
            try withScene { scene in
                let mount = try ForegroundMount(
                    scene, server.url("/film.mkv").text, through: ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"])
                try #require(eventually { mount.log.contains("mounted") })
                mount.child.signal(SIGHUP)
                // Blocked, it would wait for the thread that takes signals (proc_pid_status(5)).
                let blocked = contents("/proc/\(mount.child.pid)/status")?.split(separator: "\n")
                    .first { $0.hasPrefix("SigBlk:") }
                let mask = try #require(blocked?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) })
                #expect(mask & 1 << (SIGHUP - 1) == 0 && mask & 1 << (SIGTERM - 1) != 0)
                #expect(try readWhole(mount.file("film.mkv")).count == 5000)
                mount.child.signal(SIGTERM)
                #expect(try mount.child.wait().status == 0)
            }
        }

        @Test("Explain says which path it does not know, and of what no mount is")
        func strangers() throws {
            let server = try ScriptedServer(["/film.mkv": FileOrigin(length: 5000)])
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.url("/film.mkv").text)
                let missing = try ChildProcess.run([program, "explain", mount.file("other.mkv")])
                #expect(missing.status != 0 && missing.errors.contains("other.mkv"), "\(missing.errors)")
                let elsewhere = try ChildProcess.run([program, "explain", scene.work("")])
                #expect(elsewhere.status != 0 && !elsewhere.errors.isEmpty)
            }
        }

        private func lines(of path: String) -> [String] {
            guard let bytes = try? readWhole(path) else { return [] }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { String($0) }
        }
    }
}
