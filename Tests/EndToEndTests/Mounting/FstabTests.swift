import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// mount(8) and fstab, as root.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct FstabTests {
        static let film = FileOrigin(length: 100_000)
        /// The sources as fstab has them, behind the server's address.
        static let sources = [
            "", "films/", "films", "a,b,c/", #"a\040b/"#, "a%20b/", "a#b/", "Käse/", "?q=a,b&c=d/", #"a\134b/"#,
        ]

        @Test(
            "A line of fstab is mounted, its source byte for byte; `mount -a` mounts it once; umount ends it",
            arguments: sources, ["reelfs", "fuse.reelfs"])
        func line(source: String, type: String) throws {
            // What mount(8) makes of a type has nothing to do with the source.
            guard LongTests.areRun || type == "reelfs" || source.isEmpty else { return }
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let source = server.address + source
                try space.fstab(
                    "\(source) \(place) \(type) ro,nofail,_netdev,x-test.word=1,comment=a\\040b,noatime 0 0")
                for round in 0..<2 {
                    let end = try space.run(["mount", "-a"])
                    #expect(end.status == 0 && end.errors.isEmpty, "round \(round): \(end)")
                    let mounts = space.mounts
                    try #require(mounts.count == 1)
                    #expect((mounts[0].mountpoint, mounts[0].type) == (place, "fuse.reelfs"))
                    #expect(mounts[0].source == unescaped(source))
                    #expect(mounts[0].line.contains("default_permissions,allow_other"))
                }
                #expect(Self.film.difference(inFile: space.outside(place + "/film.mkv")) == nil)
                let daemon = try #require(space.process("daemon", of: place))
                let watcher = try #require(space.process("watch", of: place))
                #expect(try space.run(["umount", place]).status == 0)
                #expect(space.mounts.isEmpty)
                #expect(eventually { !isRunning(daemon) && !isRunning(watcher) })
            }
        }

        @Test("A catalogue is a line of fstab as any other source, with the secrets in files of its own")
        func catalogue() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                try space.write("username=joe\npassword=sesame\n", to: "/etc/reelfs.secret", mode: 0o600)
                let sources = ["films/one", "films/two"].map { path in
                    "[[source]]\npath = \"\(path)\"\nsource = \"\(server.address)\(path)/\"\n"
                        + "credentials = \"reelfs.secret\"\n"
                }
                try space.write(sources.joined(), to: "/etc/films.toml", mode: 0o600)
                try space.fstab("/etc/films.toml \(place) reelfs ro,nofail,_netdev,timeout=9 0 0")
                for _ in 0..<2 {
                    let end = try space.run(["mount", "-a"])
                    #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                    #expect(space.mounts.map(\.source) == ["/etc/films.toml"])
                }
                for path in ["films/one", "films/two"] {
                    #expect(Self.film.difference(inFile: space.outside("\(place)/\(path)/film.mkv")) == nil)
                }
                #expect(server.requests.allSatisfy { $0["authorization"] == "Basic am9lOnNlc2FtZQ==" })
                #expect(try space.run(["umount", place]).status == 0)
                #expect(space.mounts.isEmpty)
                try space.write("[[source]]\npath = 7\n", to: "/etc/films.toml", mode: 0o600)
                let end = try space.run(["mount", place])
                #expect(end.status == 1 && end.errors.contains("films.toml, line 2"), "\(end)")
            }
        }

        @Test("umount and mount follow each other without a pause, by another table than fstab as well")
        func atOnce() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                try space.write("\(server.address) \(place) reelfs ro 0 0\n", to: "/etc/other")
                #expect(try space.run(["mount", "-T", "/etc/other", "-a"]).status == 0)
                let line = "for i in 1 2 3 4 5 6; do umount \(place) && mount -T /etc/other \(place) || exit 7; done"
                let end = try space.run(["sh", "-c", line])
                #expect(end.status == 0, "\(end)")
            }
        }

        @Test("Options of fstab reach the mount: commas and spaces, a file of options and one of secrets")
        func options() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                try space.write(
                    "# what is long\nuser-agent = Reader, the 7th\numask=027\ntimeout=9\n\nuid = 1234\n",
                    to: "/etc/reelfs.conf")
                try space.write("username=joe\npassword=a:b@c/d %é\n", to: "/etc/reelfs.secret", mode: 0o600)
                let header = #"header=X-One:\040a\,\040b,header="X-Two: c, \"d\"""#.replacingSpaces
                try space.fstab(
                    "\(server.address)films/ \(place) reelfs ro,\(header),config=/etc/reelfs.conf,"
                        + "credentials=/etc/reelfs.secret,timeout=7,cache_size=50M,cache_dir=/var/cache/other 0 0")
                let end = try space.run(["mount", "-v", place])
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(end.output.split(separator: "\n").count == 1)
                for word in ["\(server.address)films/ mounted on \(place)", "timeout=7", "header=X-One: …"] {
                    #expect(end.output.contains(word), "\(end.output)")
                }
                #expect(!end.output.contains("c, ") && !end.output.contains("a, b"))
                let shown = try attributes(space.outside(place + "/film.mkv"))
                #expect((shown.st_uid, shown.st_mode) == (1234, S_IFREG | 0o440))
                let request = try #require(server.requests.last)
                #expect(request["x-one"] == "a, b")
                #expect(request["x-two"] == "c, \"d\"")
                #expect(request["user-agent"] == "Reader, the 7th")
                // base64 of joe:a:b@c/d %é
                #expect(request["authorization"] == "Basic am9lOmE6YkBjL2QgJcOp")
                #expect(access(space.outside("/var/cache/other"), F_OK) == 0)
            }
        }

        @Test(
            "remount succeeds without a second mount, and says what cannot change",
            arguments: ["reelfs", "fuse.reelfs"])
        func remount(type: String) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                try space.fstab("\(server.address) \(place) \(type) ro 0 0")
                #expect(try space.run(["mount", place]).status == 0)
                let daemon = space.process("daemon", of: place)
                let plain = try space.run(["mount", "-o", "remount", place])
                #expect(plain.status == 0 && plain.errors.isEmpty, "\(plain)")
                let changed = try space.run(["mount", "-o", "remount,timeout=5", place])
                #expect(changed.status == 0 && changed.errors.contains("timeout"), "\(changed)")
                #expect(space.mounts.count == 1)
                #expect(space.process("daemon", of: place) == daemon)
                #expect(try space.run(["umount", place]).status == 0)
                let gone = try space.run(["mount", "-t", type, "-o", "remount", server.address, place])
                #expect(gone.status == 32 && space.mounts.isEmpty, "\(gone)")
            }
        }

        @Test("Without network a mount comes from memory, and without memory says why it cannot")
        func offline() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                try space.fstab("\(server.address) \(place) reelfs ro,nofail 0 0")
                #expect(try space.run(["mount", place]).status == 0)
                #expect(Self.film.difference(inFile: space.outside(place + "/film.mkv")) == nil)
                #expect(try space.run(["umount", place]).status == 0)
                server.stop()
                let known = try space.run(["mount", "-a"])
                #expect(known.status == 0 && space.mounts.count == 1, "\(known)")
                #expect(Self.film.difference(inFile: space.outside(place + "/film.mkv")) == nil)
                #expect(try space.run(["umount", place]).status == 0)
                let unknown = try space.run(["mount", "-t", "reelfs", server.address + "other/", place])
                #expect(unknown.status == 32 && unknown.errors.contains("nothing is remembered"), "\(unknown)")
                #expect(unknown.errors.split(separator: "\n").count == 1)
            }
        }

        @Test(
            "User and password in the source are hidden everywhere, and the line of fstab warned of; in a file neither")
        func password() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let source = "http://joe:sesame@127.0.0.1:\(server.port)/"
                let open = try space.run(["mount", "-t", "reelfs", source, place])
                #expect(open.status == 0 && open.errors.contains("credentials=FILE"), "\(open)")
                #expect(space.mounts.map(\.source) == ["http://***@127.0.0.1:\(server.port)/"])
                let again = try space.run(["mount", "-t", "reelfs", source, place])
                #expect(again.status == 32 && again.errors.contains("credentials=FILE"), "\(again)")
                #expect(try space.run(["umount", place]).status == 0)

                try space.write("username=joe\npassword=sesame\n", to: "/etc/reelfs.secret", mode: 0o400)
                let known = "http://127.0.0.1:\(server.port)/"
                try space.fstab("\(known) \(place) reelfs credentials=/etc/reelfs.secret 0 0")
                for _ in 0..<2 {
                    let end = try space.run(["mount", "-a"])
                    #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                    #expect(space.mounts.map(\.source) == [known])
                }
                #expect(Self.film.difference(inFile: space.outside(place + "/film.mkv")) == nil)
                #expect(server.requests.allSatisfy { $0["authorization"] == "Basic am9lOnNlc2FtZQ==" })
            }
        }
    }
}

extension String {
    /// fstab(5)'s way to write a space.
    fileprivate var replacingSpaces: String {
        split(separator: " ", omittingEmptySubsequences: false).joined(separator: #"\040"#)
    }
}
