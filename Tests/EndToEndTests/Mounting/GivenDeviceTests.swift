import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// A mount that the caller has made: `/dev/fd/N` as mount point.
    @Suite(.enabled(if: geteuid() == 0, "needs root to mount")) struct GivenDeviceTests {
        static let film = FileOrigin(length: 300_000)

        /// Mounts, and becomes the program, without privileges where a user is given.
        private static let maker = """
            import ctypes, os, sys
            place, user, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
            device = os.open("/dev/fuse", os.O_RDWR)
            os.set_inheritable(device, True)
            options = "fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other,default_permissions,max_read=262144"
            libc = ctypes.CDLL(None, use_errno=True)
            data = (options % (device, user)).encode()
            if libc.mount(b"given", place.encode(), b"fuse.reelfs", 1 | 2 | 4, data) != 0:
                sys.exit(os.strerror(ctypes.get_errno()))
            if user != 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            words[words.index("DEVICE")] = "/dev/fd/%d" % device
            os.execv(words[0], words)
            """

        private func make(_ scene: Scene, _ source: String, user: uid_t, _ options: [String] = []) throws
            -> ChildProcess.End
        {
            try ChildProcess.run(
                ["python3", "-c", Self.maker, scene.mountpoint, "\(user)", program, "mount", source, "DEVICE"]
                    + ["--cache-dir", scene.cache] + scene.keyOptions + options,
                environment: ["no_proxy": "127.0.0.1"], within: .seconds(30))
        }

        @Test(
            "A process without privileges serves a mount that its parent has made", arguments: [0, 61_234] as [uid_t])
        func unprivileged(user: uid_t) throws {
            let server = try filmServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                chmod(scene.folder, 0o755)
                chown(scene.cache, user, user)
                if let key = scene.key { chown(key, user, user) }
                let end = try make(scene, server.address, user: user)
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(Self.film.difference(inFile: scene.mountpoint + "/film.mkv") == nil)
                #expect(try attributes(scene.mountpoint + "/film.mkv").st_uid == user)
                let status = try ChildProcess.run([program, "status", scene.mountpoint])
                #expect(status.output.contains(" (pid "), "\(status)")
                #expect(unmount(scene.mountpoint))
                #expect(eventually { !processes().contains { isDaemonWith($0, server.address) } })
            }
        }

        @Test("It joins the daemon that serves the source already")
        func joins() throws {
            try withMount(of: Self.film) { scene, server, mount in
                let place = scene.folder + "/other"
                mkdir(place, 0o755)
                let end = try ChildProcess.run(
                    ["python3", "-c", Self.maker, place, "0", program, "mount", server.address, "DEVICE"]
                        + ["--cache-dir", scene.cache, "--umask", "077"] + scene.keyOptions,
                    environment: ["no_proxy": "127.0.0.1"], within: .seconds(30))
                #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
                #expect(Self.film.difference(inFile: place + "/film.mkv") == nil)
                #expect(try attributes(place + "/film.mkv").st_mode == S_IFREG | 0o400)
                waitForStartingChildren()
                #expect(unmount(place))
                #expect(isRunning(mount.pid))
                #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
            }
        }

        @Test("A descriptor that is none of /dev/fuse is refused by name", arguments: ["/dev/fd/0", "/dev/fd/99"])
        func refused(path: String) throws {
            try withScene { scene in
                let end = try ChildProcess.run(
                    [program, "mount", "http://127.0.0.1:1/", path, "--cache-dir", scene.cache] + scene.keyOptions)
                #expect(end.status == 32 && end.errors.contains("\(path) is not an open /dev/fuse"), "\(end)")
            }
        }

        private func isDaemonWith(_ pid: pid_t, _ source: String) -> Bool {
            let words = commandLine(of: pid)
            return words.count == 4 && words[1] == "daemon" && words[2] == source && isRunning(pid)
        }
    }
}
