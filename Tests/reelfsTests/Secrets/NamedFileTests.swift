import Glibc
import Logging
import ReelHTTP
import ReelThreads
import ReelVolume
import TestKit
import Testing

@testable import reelfs

/// Files that options name, opened for what they are for.
@Suite("Files that the user names")
struct NamedFileTests {
    private static let other: uid_t = 61_234

    @Test(
        "A list that another user could change is opened without trust, and not at all where secrets would follow it",
        .enabled(if: geteuid() == 0, "needs root to give files away"),
        arguments: [
            (0o644, 0, 0, true), (0o664, 0, 0, true), (0o664, 0, other, false), (0o646, 0, 0, false),
            (0o600, other, other, false),
        ] as [(mode_t, uid_t, gid_t, Bool)])
    func list(mode: mode_t, owner: uid_t, group: gid_t, isTrusted: Bool) throws {
        try withTemporaryDirectory { root in
            let path = root + "/list.m3u"
            defer { unlink(path) }
            try write("", to: path)
            try #require(chown(path, owner, group) == 0 && chmod(path, mode) == 0)
            for getsSecrets in [false, true] {
                var warnings: [String] = []
                switch openList(path, getsSecrets: getsSecrets, warn: { warnings.append($0) }) {
                case .file(let descriptor, let trust):
                    close(descriptor)
                    #expect(trust == isTrusted && (isTrusted || !getsSecrets))
                    #expect(warnings.count == (isTrusted ? 0 : 1) && warnings.allSatisfy { $0.contains(".netrc") })
                case .failed(let reason): #expect(!isTrusted && getsSecrets && reason.contains(path), "\(reason)")
                }
            }
        }
    }

    @Test("The log says once that a list is not trusted")
    func warning() throws {
        let lines = Monitor<[String]>([])
        let desk = try NewsDesk(MountOptions(), Logger(label: "test") { _ in ChangeCommandTests.Sink(lines: lines) })
        for sentence in ["first", "second"] { desk.warn(ofList: sentence) }
        #expect(lines.withLock { $0 } == ["first"])
    }

    @Test(
        "A list in a directory that a group of others may write is not trusted, and the sentence names the directory",
        .enabled(if: geteuid() == 0, "needs root to give directories away"))
    func sharedList() throws {
        try withTemporaryDirectory { root in
            let (folder, path) = (root + "/media", root + "/media/list.m3u")
            defer {
                unlink(path)
                rmdir(folder)
            }
            try #require(mkdir(folder, 0o755) == 0)
            try write("", to: path)
            try #require(chown(folder, 0, Self.other) == 0 && chmod(folder, 0o2775) == 0 && chmod(path, 0o644) == 0)
            guard case .failed(let reason) = openList(path, getsSecrets: true) else {
                Issue.record("a list that others can replace gets headers")
                return
            }
            #expect(reason.contains("make \(folder) the mounting user's own") && reason.contains("leave out header"))
        }
    }

    @Test("A local list that others can write is no source for a mount with headers or cookies")
    func source() throws {
        try withTemporaryDirectory { root in
            let path = root + "/list.m3u"
            defer { unlink(path) }
            try write("", to: path)
            try #require(chmod(path, 0o666) == 0)
            _ = try SourceConfiguration(path, MountOptions())
            let options = try MountOptions([GivenOption("header", "X-Key: sesame")])
            let refusal = #expect(throws: Failure.self) { _ = try SourceConfiguration(path, options) }
            #expect(
                refusal?.sentence == "list \(shown(path)) could be changed by another user: run `chmod go-w` on it, or "
                    + "leave out header and cookies, which go where the list says")
            try #require(chmod(path, 0o644) == 0)
            _ = try SourceConfiguration(path, options)
        }
    }

    @Test("Known hosts that others can write, and a private key that others can read, are refused")
    func ssh() throws {
        try withTemporaryDirectory { root in
            let (hosts, key) = (root + "/known_hosts", root + "/key")
            defer { for path in [hosts, key] { unlink(path) } }
            var options = MountOptions()
            options.sshKnownHosts = hosts
            // A file that is missing knows no host.
            #expect(try SSHAccess(options, host: "h", home: nil).knownHosts == hosts)
            for (path, good, bad) in [
                (hosts, 0o644, 0o666), (key, 0o600, 0o644), (key, 0o440, 0o640), (key, 0o400, 0o444),
            ] as [(String, mode_t, mode_t)] {
                unlink(path)
                try write("", to: path)
                if path == key { options.sshKey = key }
                try #require(chmod(path, bad) == 0)
                #expect(throws: Failure.self, "\(path)") { try SSHAccess(options, host: "h", home: nil) }
                try #require(chmod(path, good) == 0)
                #expect(try SSHAccess(options, host: "h", home: nil).knownHosts == hosts)
            }
            #expect(try SSHAccess(options, host: "h", home: nil).privateKey == key)
        }
    }

    @Test(
        "A key of another user is refused with what root can do, and one for another group's eyes as well",
        .enabled(if: geteuid() == 0, "needs root to give files away"))
    func keyOfAnother() throws {
        try withTemporaryDirectory { root in
            var options = MountOptions()
            options.sshKey = root + "/home/key"
            defer {
                unlink(root + "/home/key")
                rmdir(root + "/home")
            }
            try #require(mkdir(root + "/home", 0o755) == 0)
            try write("", to: root + "/home/key")
            let remedy = "copy it to a directory of root's, owned by root, mode 0600"
            func refusal() -> String? {
                do throws(Failure) { _ = try SSHAccess(options, host: "h", home: nil) } catch { return error.sentence }
                return nil
            }
            try #require(chown(root + "/home/key", Self.other, Self.other) == 0)
            #expect(refusal()?.hasSuffix(remedy) == true)
            try #require(chown(root + "/home", Self.other, Self.other) == 0)
            #expect(refusal()?.hasSuffix(remedy) == true)
            try #require(chown(root + "/home", 0, 0) == 0 && chown(root + "/home/key", 0, Self.other) == 0)
            try #require(chmod(root + "/home/key", 0o440) == 0)
            #expect(refusal()?.contains("accessible to others") == true)
            try #require(chown(root + "/home/key", 0, 0) == 0 && chmod(root + "/home/key", 0o440) == 0)
            #expect(refusal() == nil)
        }
    }

    @Test("Only an entry of .netrc has a login, and no other word that is like the host")
    func netrc() throws {
        try withTemporaryDirectory { home in
            defer { unlink(home + "/.netrc") }
            let user = try #require(Account.own).name
            for (text, expected) in [
                ("machine other login joe password default", user), ("machine other login nas password nas", user),
                ("default login joe", nil), ("machine NAS login joe", nil),
            ] {
                try write(text, to: home + "/.netrc")
                #expect(try SSHAccess(MountOptions(), host: "nas", home: home).user == expected, "\(text)")
            }
        }
    }

    // MARK: The request log

    private static let record = decodeLine(
        RequestRecord.self,
        Array(#"{"when":"now","file":"http://h/a","why":"demand","from":"origin","bytes":1,"milliseconds":1}"#.utf8))!
    private static let line = encodeLine(record)

    private func withLog(_ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { root in
            defer {
                for name in ["log", "log.1", "old", "target"] { unlink("\(root)/\(name)") }
                rmdir(root + "/log.1")
            }
            try body(root + "/log")
        }
    }

    private func lines(_ path: some StringProtocol) -> Int { contents(of: String(path)).utf8.count / Self.line.count }

    @Test("A full log makes room once, and is never longer than two files")
    func rotation() throws {
        try withLog { path in
            let log = try RequestLogFile(path, limit: Int64(3 * Self.line.count))
            for count in 1...7 {
                log.write(Self.record)
                #expect(lines(path) == (count - 1) % 3 + 1)
                if count > 3 { #expect(lines(path + ".1") == 3) }
            }
            var status = stat()
            #expect(lstat(path, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        }
    }

    @Test("A full log that cannot be renamed is written on, and one sentence says so")
    func stuck() throws {
        try withLog { path in
            let warnings = Monitor<[String]>([])
            let log = try RequestLogFile(path, limit: Int64(3 * Self.line.count)) { text in
                warnings.withLock { $0.append(text) }
            }
            try #require(mkdir(path + ".1", 0o700) == 0)
            for _ in 0..<5 { log.write(Self.record) }
            #expect(lines(path) == 5)
            #expect(warnings.withLock { $0.count } == 1)
            try #require(rmdir(path + ".1") == 0)
            log.write(Self.record)
            #expect(lines(path) == 1 && lines(path + ".1") == 5)
        }
    }

    @Test(
        "A log may lie in a directory of root's that a group may write, as /var/log is, and not where anybody else may",
        .enabled(if: geteuid() == 0, "needs root to give directories away"),
        arguments: [
            (0o775, 0, true), (0o2775, 0, true), (0o1777, 0, true), (0o777, 0, false), (0o755, other, false),
        ] as [(mode_t, uid_t, Bool)])
    func logDirectory(mode: mode_t, owner: uid_t, isTaken: Bool) throws {
        try withLog { path in
            let root = String(path.dropLast(4))
            try #require(chown(root, owner, Self.other) == 0 && chmod(root, mode) == 0)
            let log = try? RequestLogFile(path, limit: Int64(3 * Self.line.count))
            #expect((log != nil) == isTaken && (access(path, F_OK) == 0) == isTaken)
            guard let log else { return }
            for _ in 0..<4 { log.write(Self.record) }
            try log.reopen()
            #expect(lines(path) == 1 && lines(path + ".1") == 3)
        }
    }

    @Test("A link in the place of a log is not followed, and a file with another name is not written")
    func linkedLogs() throws {
        try withLog { path in
            let target = String(path.dropLast(3)) + "target"
            try write("", to: target)
            for make in [symlink, link] {
                try #require(make(target, path) == 0)
                #expect(throws: Failure.self) { try RequestLogFile(path) }
                unlink(path)
            }
        }
    }

    @Test("Another writer that has made room already loses nothing")
    func twoWriters() throws {
        try withLog { path in
            let logs = try (0..<2).map { _ in try RequestLogFile(path, limit: Int64(3 * Self.line.count)) }
            for count in 0..<5 { logs[count % 2].write(Self.record) }
            #expect(lines(path) == 2)
            #expect(lines(path + ".1") == 3)
        }
    }

    @Test("A log that was moved away is written on until it is opened again")
    func reopened() throws {
        try withLog { path in
            let log = try RequestLogFile(path)
            log.write(Self.record)
            try #require(rename(path, String(path.dropLast(3)) + "old") == 0)
            log.write(Self.record)
            try log.reopen()
            log.write(Self.record)
            #expect(lines(path.dropLast(3) + "old") == 2)
            #expect(lines(path) == 1)
        }
    }

    @Test(
        "A log that others can read or own, or that is no file, is refused, and nothing is made through another's link",
        .enabled(if: geteuid() == 0, "needs root to give files away"))
    func refusedLogs() throws {
        try withLog { path in
            for (mode, owner) in [(0o644, 0), (0o660, 0), (0o600, Self.other)] as [(mode_t, uid_t)] {
                try write("", to: path)
                try #require(chown(path, owner, owner) == 0 && chmod(path, mode) == 0)
                #expect(throws: Failure.self) { try RequestLogFile(path) }
                unlink(path)
            }
            try #require(mkfifo(path, 0o600) == 0)
            #expect(throws: Failure.self) { try RequestLogFile(path) }
            unlink(path)
            let target = String(path.dropLast(3)) + "target"
            try #require(symlink(target, path) == 0 && lchown(path, Self.other, Self.other) == 0)
            #expect(throws: Failure.self) { try RequestLogFile(path) }
            #expect(access(target, F_OK) != 0)
        }
    }
}

private func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    try #require(descriptor >= 0)
    writeAll(descriptor, Array(text.utf8))
    close(descriptor)
}
