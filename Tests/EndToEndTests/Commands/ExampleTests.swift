import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// The examples in `mount-helpers/`.
    @Suite struct ExampleTests {
        private var folder: String { repository + "/mount-helpers" }

        private func lines(_ name: String) throws -> [[String]] {
            try #require(contents(folder + "/" + name)).split(separator: "\n").filter { !$0.hasPrefix("#") }
                .map { $0.split(separator: " ").map { String($0) } }
        }

        /// - Parameter options: as they stand there; files that they name are the examples'.
        private func pretend(_ source: String, _ options: String) throws {
            try withScene { scene in
                var options = options
                for (key, example) in [("config", "reelfs.conf"), ("credentials", "credentials")] {
                    let words = options.split(separator: ",").map { word in
                        word.hasPrefix(key + "=/etc/reelfs/") ? "\(key)=\(folder)/\(example).example" : String(word)
                    }
                    options = words.joined(separator: ",")
                }
                let words = [program, source, scene.mountpoint, "-fv", "-o", options]
                let end = try ChildProcess.run(words)
                #expect(end.status == 0 && end.errors.isEmpty, "\(source): \(end)")
                #expect(end.output.hasPrefix("reelfs: \(source.prefix { $0 != "?" })"), "\(end)")
            }
        }

        @Test("Every line of fstab.example is understood")
        func fstab() throws {
            let all = try lines("fstab.example")
            #expect(all.count >= 5)
            for fields in all {
                try #require(fields.count == 6 && fields[2] == "reelfs", "\(fields)")
                try pretend(fields[0], fields[3])
            }
        }

        @Test("systemd finds no fault with the units", .enabled(if: geteuid() == 0, "needs root"))
        func units() throws {
            // There the program is in a directory where units look for it.
            try withNamespace { space in
                for (name, manager) in [("reelfs@.service", "--system"), ("user/reelfs@.service", "--user")] {
                    let end = try space.run(
                        [
                            "env", "XDG_RUNTIME_DIR=/run", "systemd-analyze", manager, "--man=no",
                            "--recursive-errors=no",
                        ]
                            + ["verify", folder + "/" + name])
                    // systemd 255 says that no bus is there.
                    let faults = end.errors.split(separator: "\n").filter { !$0.contains("connect to system bus") }
                    #expect(end.status == 0 && end.output.isEmpty && faults.isEmpty, "\(name): \(end)")
                }
            }
        }

        @Test("credentials.example is understood")
        func credentials() throws {
            try withScene { scene in
                let text = try #require(contents(folder + "/credentials.example"))
                // The lines that are commented out as well.
                let all = text.split(separator: "\n").map {
                    $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0
                }
                try writeFile(scene.work("secret"), (all.joined(separator: "\n") + "\n").utf8)
                chmod(scene.work("secret"), 0o600)
                let end = try scene.tryMount("http://127.0.0.1:1/", ["--credentials", scene.work("secret")])
                #expect(end.status == 32 && end.errors.contains("nothing is remembered"), "\(end)")
            }
        }

        @Test("Every line of autofs.example is understood, its colons escaped")
        func autofs() throws {
            let all = try lines("autofs.example")
            #expect(all.count >= 4)
            for fields in all {
                try #require(fields.count == 3 && fields[1].hasPrefix("-fstype=reelfs,") && fields[2].hasPrefix(":"))
                let location = fields[2].dropFirst()
                let source = location.split(separator: "\\:", omittingEmptySubsequences: false).joined(separator: ":")
                #expect(location.filter { $0 == ":" }.count == location.filter { $0 == "\\" }.count, "\(location)")
                try pretend(source, String(fields[1].dropFirst("-fstype=reelfs,".count)))
            }
        }
    }
}
