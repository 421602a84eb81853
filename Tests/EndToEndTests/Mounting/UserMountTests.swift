import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Who is not root: through fusermount3.
    @Suite(.enabled(if: geteuid() == 0, "needs root to become somebody else")) struct UserMountTests {
        static let film = FileOrigin(length: 100_000)

        @Test("A line with `user` is mounted and unmounted by an ordinary user", arguments: ["reelfs", "fuse.reelfs"])
        func fstab(type: String) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let source = server.address + "?user=a,b"
                try space.fstab("\(source) \(space.theirs) \(type) ro,noauto,user 0 0")
                let end = try space.run(["mount", space.theirs], asUser: true)
                #expect(end.status == 0 && (end.output + end.errors).isEmpty, "\(end)")
                #expect(space.mounts.map(\.source) == [source])
                let mounted = try #require(space.mounts.first)
                #expect(mounted.line.contains("user_id=\(MountNamespace.user)"))
                let read = try space.run(["cat", space.theirs + "/film.mkv"], asUser: true)
                #expect(read.status == 0 && !read.output.isEmpty)
                #expect(access(space.outside(space.scene.folder + "/home/.cache/reelfs"), F_OK) == 0)
                let daemon = try #require(space.process("daemon", of: space.theirs))
                let stop = try space.run(["umount", space.theirs], asUser: true)
                #expect(stop.status == 0, "\(stop)")
                #expect(space.mounts.isEmpty)
                #expect(eventually { !isRunning(daemon) })
            }
        }

        @Test("Without fstab a user mounts what is theirs, and nobody else looks into it", .plainAndEncrypted)
        func plain() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let words = [space.scene.folder + "/layer/bin/reelfs"]
                if let key = space.scene.key { chown(key, MountNamespace.userID, MountNamespace.userID) }
                let mount = words + ["mount", server.address, space.theirs] + space.scene.keyOptions
                let end = try space.run(mount, asUser: true)
                #expect(end.status == 0, "\(end)")
                let mounted = try #require(space.mounts.first)
                #expect(!mounted.line.contains("allow_other"))
                #expect(try space.run(["ls", space.theirs], asUser: true).output == "film.mkv\n")
                try writeFile(space.scene.work("film"), Self.film.expectedBytes(ByteRange(0, 100_000)))
                let same = try space.run(["cmp", space.theirs + "/film.mkv", space.scene.work("film")], asUser: true)
                #expect(same.status == 0, "\(same)")
                #expect(try space.run(["ls", space.theirs]).status != 0, "root looks in")
                let status = try space.run(words + ["status", space.theirs])
                #expect(status.status == 0 && status.errors.isEmpty, "\(status)")
                #expect(status.output.contains("answers only the user who mounted it (uid \(MountNamespace.user))"))
                #expect(try space.run(words + ["top", space.theirs]).status == 0)
                // In an environment whose own cache directory is no good.
                let elsewhere = ["env", "XDG_CACHE_HOME=/dev/null"] + words
                let restart = try space.run(elsewhere + ["restart", space.theirs], asUser: true)
                #expect(restart.status == 0, "\(restart)")
                let all = try space.run(elsewhere + ["status"], asUser: true)
                #expect(all.status == 0 && all.output.contains(space.theirs), "\(all)")
                #expect(try space.run(words + ["umount", space.theirs], asUser: true).status == 0)
                #expect(space.mounts.isEmpty)
            }
        }

        @Test("`umount --all` ends all that the user has mounted, and nothing of another's")
        func all() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let words = [space.scene.folder + "/layer/bin/reelfs"]
                let (own, other) = (space.scene.folder + "/home/own", space.scene.folder + "/other")
                #expect(try space.run(["mkdir", own], asUser: true).status == 0)
                #expect(try space.run(["mkdir", other]).status == 0)
                for place in [space.theirs, own] {
                    #expect(try space.run(words + ["mount", server.address, place], asUser: true).status == 0)
                }
                let cache = ["--cache-dir", space.scene.cache]
                #expect(try space.run(words + ["mount", server.address, other] + cache).status == 0)
                let both = try space.run(words + ["umount", "--all", own], asUser: true)
                #expect(both.status == 1 && both.errors.contains("a mount point, or --all"), "\(both)")
                let end = try space.run(words + ["umount", "--all"], asUser: true)
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(space.mounts.map(\.mountpoint) == [other])
                #expect(try space.run(words + ["umount", other]).status == 0)
            }
        }

        @Test("In a user namespace, where root's directories seem to be nobody's, a user mounts what is theirs")
        func userNamespace() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let program = space.scene.folder + "/layer/bin/reelfs"
                let script = """
                    "$0" mount "$1" "$2" --cache-dir "$3" && wc -c < "$2/film.mkv"; "$0" umount "$2"
                    """
                let end = try space.run(
                    ["unshare", "-rm", "sh", "-c", script, program, server.address, space.theirs]
                        + [space.scene.folder + "/home/.cache/spare"], asUser: true)
                #expect(end.status == 0 && end.output == "100000\n", "\(end)")
            }
        }

        @Test("After a mount by root everybody may read, unless an option says otherwise", arguments: [true, false])
        func byRoot(isShared: Bool) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let place = space.scene.mountpoint
                let options = isShared ? "ro" : "ro,no_allow_other"
                let end = try space.run(["mount", "-t", "reelfs", "-o", options, server.address, place])
                #expect(end.status == 0, "\(end)")
                let look = try space.run(["cat", place + "/film.mkv"], asUser: true)
                #expect(look.status == (isShared ? 0 : 1), "\(look.errors)")
                // It is not theirs to end.
                #expect(try space.run(["umount", place], asUser: true).status != 0)
                #expect(space.mounts.count == 1)
            }
        }

        struct Lack: CustomTestStringConvertible, Sendable {
            var testDescription: String
            /// In the namespace, as root.
            var command: String
            var options: [String] = []
            var place = "theirs"
            /// In the sentence.
            var named: String

            static let all = [
                Lack(
                    testDescription: "fuse.conf", command: "echo '#user_allow_other' > /etc/fuse.conf",
                    options: ["-o", "allow_other"], named: "user_allow_other"),
                Lack(testDescription: "the device's mode", command: "chmod 600 /dev/fuse", named: "/dev/fuse"),
                Lack(
                    testDescription: "no device", command: "umount /dev/fuse; mount -t tmpfs tmpfs /dev",
                    named: "modprobe"),
                Lack(
                    testDescription: "no fusermount3", command: "mount --bind /dev/null /usr/bin/fusermount3",
                    named: "package fuse3"),
                Lack(
                    testDescription: "fusermount3 without its bit",
                    command: "cp /usr/bin/fusermount3 /run/f && mount --bind /run/f /usr/bin/fusermount3",
                    named: "set-user-ID"),
                // fusermount3's own sentence.
                Lack(
                    testDescription: "somebody else's directory", command: "true", place: "mount", named: "write access"
                ),
            ]
        }

        @Test("What an ordinary user lacks is one sentence", arguments: Lack.all)
        func lack(_ lack: Lack) throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let prepared = try space.run(["sh", "-c", lack.command])
                try #require(prepared.status == 0, "\(prepared)")
                let place = space.scene.folder + "/" + lack.place
                let words = [space.scene.folder + "/layer/bin/reelfs", "mount", server.address, place]
                let end = try space.run(words + lack.options, asUser: true)
                #expect(end.status == 32 && end.errors.contains(lack.named), "\(end)")
                #expect(end.errors.split(separator: "\n").count == 1, "\(end.errors)")
                #expect(space.mounts.isEmpty)
                #expect(eventually { space.process("daemon", of: place) == nil })
            }
        }

        @Test("Without the device root gets one sentence as well")
        func rootWithoutDevice() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                let line = "mount -t tmpfs -o dev tmpfs /dev && mknod -m 666 /dev/null c 1 3"
                #expect(try space.run(["sh", "-c", line]).status == 0)
                let end = try space.run(["mount", "-t", "reelfs", server.address, space.scene.mountpoint])
                #expect(end.status == 32 && end.errors.contains("modprobe fuse"), "\(end)")
                #expect(end.errors.split(separator: "\n").count == 1, "\(end.errors)")
            }
        }

        @Test("With user_allow_other a user may share the mount")
        func allowed() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withNamespace { space in
                try space.write("mount_max = 10\nuser_allow_other\n", to: "/etc/fuse.conf")
                let words = [space.scene.folder + "/layer/bin/reelfs", "mount", "--allow-other"]
                let end = try space.run(words + [server.address, space.theirs], asUser: true)
                #expect(end.status == 0, "\(end)")
                #expect(try space.run(["ls", space.theirs]).output == "film.mkv\n")
                // Its options are the user's: with root's rights they would run any command, and read any file.
                let restart = try space.run([words[0], "restart", space.theirs])
                #expect(restart.status == 32 && restart.errors.contains("another user (uid 61234)"), "\(restart)")
            }
        }
    }
}
