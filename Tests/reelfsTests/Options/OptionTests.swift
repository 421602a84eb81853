import Glibc
import ReelCore
import ReelSources
import TestKit
import Testing

@testable import reelfs

@Suite("Mount options")
struct OptionTests {
    static let good: [(String, @Sendable (inout MountOptions) -> Void)] = [
        ("", { _ in }),
        ("rw,noatime,nodev,suid,x-systemd.automount,_netdev,nofail,user,comment=a b,defaults", { _ in }),
        ("cache_dir=/a\\,b", { $0.cacheDirectory = "/a,b" }),
        ("cache-dir=/a\\\\b\\c", { $0.cacheDirectory = "/a\\b\\c" }),
        ("cache_size=20G", { $0.cacheSize = 20 << 30 }),
        ("cache_size=1t,cache_size=1048576", { $0.cacheSize = 1 << 20 }),
        ("cache_size=1.5GiB,auto_unmount,kernel_cache", { $0.cacheSize = 3 << 29 }),
        ("timeout=5", { $0.timeout = 5 }), ("timeout=2m", { $0.timeout = 120 }),
        ("timeout=1m30", { $0.timeout = 90 }), ("refresh=1h30m5s", { $0.refresh = 5405 }),
        ("refresh=5min", { $0.refresh = 300 }),
        ("uid=root,gid=root", { ($0.user, $0.group) = (0, 0) }), ("reconnect,nonempty,min_free=5%", { _ in }),
        ("refresh=0", { $0.refresh = 0 }), ("refresh=90", { $0.refresh = 90 }), ("refresh=45s", { $0.refresh = 45 }),
        ("refresh=10m", { $0.refresh = 600 }), ("refresh=24h", { $0.refresh = 86_400 }),
        ("prebuffer=0", { $0.prebuffer = 0 }),
        ("keep-next=3", { $0.keepNext = 3 }),
        ("keep-new=100", { $0.keepNew = 100 }),
        ("prebuffer=32M", { $0.prebuffer = 32 << 20 }),
        (
            "uid=1000,gid=100,umask=027",
            {
                $0.user = 1000; $0.group = 100; $0.umask = 0o027
            }
        ),
        (
            "allow_other,ro,foreground",
            {
                $0.allowOther = true; $0.foreground = true
            }
        ),
        (
            "header=Authorization: Bearer a=b\\,c,header=X: ",
            {
                let fields = [("Authorization", "Bearer a=b,c"), ("X", "")]
                $0.headers = fields.map { .field(HeaderField(name: $0.0, value: $0.1)) }
            }
        ),
        ("header=@/etc/token", { $0.headers = [.file("/etc/token")] }),
        (
            "user_agent=A/1,log_level=debug",
            {
                $0.userAgent = "A/1"; $0.logLevel = "debug"
            }
        ),
        ("remount,,", { $0.isRemount = true }),
        ("allow_other,no_allow_other", { $0.allowOther = false }),
        (
            "credentials=/etc/a b,config=/etc/c",
            {
                $0.credentialsFile = "/etc/a b"; $0.optionFile = "/etc/c"
            }
        ),
        (
            #"user_agent="A, \"B\"",timeout=5"#,
            {
                $0.userAgent = #"A, "B""#; $0.timeout = 5
            }
        ),
        (
            #"token_command=/bin/show "a b"\, c,cookies=/c,cert=/d,key=/e,cacert=/f"#,
            {
                $0.tokenCommand = Command(parsing: #"/bin/show "a b", c"#)
                ($0.cookieFile, $0.certificateFile, $0.keyFile, $0.authorityFile) = ("/c", "/d", "/e", "/f")
            }
        ),
        (#"user_agent=A "B""#, { $0.userAgent = #"A "B""# }),
    ]

    /// What is written, and what the sentence names in its place.
    static let advice = [
        ("bwlimit=3M", "its name here is limit-rate"), ("limit_rat=3M", "the nearest is limit-rate"),
        ("IdentityFile=/k", "its name here is ssh-key"), ("quite-another", "`reelfs mount --help` lists all options"),
        ("cache_size=1000000", "without a unit, 1000000 are bytes"), ("refresh=1h30x", "a time such as 90"),
        ("timeout=0s0", "a time from 1"), ("cache_size=10", "without a unit, 10 are bytes"),
        ("min_free=5", "without a unit, 5 are bytes"),
        ("read-only", "leave it out, as every mount is read-only"), ("allow_other=maybe", "no value, or yes or no"),
    ]

    @Test("A word of another program's, or one that is misspelt, is named in ours", arguments: advice)
    func advised(word: String, sentence: String) {
        let failure = #expect(throws: Failure.self) {
            var options = MountOptions()
            try options.apply(list: word)
        }
        #expect(failure?.sentence.contains(sentence) == true, "\(failure?.sentence ?? "")")
    }

    @Test(
        "So on the command line",
        arguments: [
            ("--bwlimit", "limit-rate"), ("-k", "cacert"), ("--cach-size", "cache-size"),
            ("--user", "credentials=FILE"), ("--reconnect", "leave it out"),
        ])
    func advisedOnTheCommandLine(word: String, ours: String) throws {
        let end = try ChildProcess.run([CommandTests.program, "mount", word, "3M", "http://h/", "/m"])
        #expect(
            end.status == 1 && end.errors.contains("unknown option \(word): ") && end.errors.contains(ours), "\(end)")
    }

    @Test("What --allow-other is given is yes or no")
    func allowOther() throws {
        for (word, expected) in [("--allow-other", true), ("--allow-other=yes", true), ("--allow-other=no", false)] {
            let command = try Program.parse(["reelfs", "mount", "http://h/", "/m", word]) as? MountCommand
            #expect(try #require(command).words.options().allowOther == expected)
        }
        let failure = #expect(throws: Failure.self) {
            try Program.parse(["reelfs", "mount", "http://h/", "/m", "--allow-other=maybe"])
        }
        #expect(failure?.sentence == "option allow-other takes no value, or yes or no")
    }

    @Test("The path of a program is absolute, as the daemon runs it in another directory")
    func commandPath() throws {
        var options = MountOptions()
        try options.apply(list: "token_command=./show a,resolver=bin/find,on_change=mpc update")
        let here = currentDirectory()
        #expect(options.tokenCommand?.words == [here + "/./show", "a"])
        #expect(options.resolver?.words == [here + "/bin/find"] && options.onChange?.words == ["mpc", "update"])
    }

    @Test("So are those of files, which a catalogue is read again with")
    func filePaths() throws {
        let options = try MountOptions([GivenOption("cacert", "ca.pem"), GivenOption("cookies", "/c")])
        #expect(options.authorityFile == currentDirectory() + "/ca.pem" && options.cookieFile == "/c")
    }

    @Test("The short forms of curl mean the same")
    func shortForms() throws {
        let words = ["-H", "A: b", "-A", "C/1", "-b", "/c", "-E", "/d", "-r"]
        let command = try Program.parse(["reelfs", "mount", "http://h/", "/m"] + words) as? MountCommand
        let options = try #require(command).words.options()
        #expect(options.headers == [.field(HeaderField(name: "A", value: "b"))] && options.userAgent == "C/1")
        #expect(options.cookieFile == "/c" && options.certificateFile == "/d")
    }

    @Test("Each scheme of a source is one, and another is named", arguments: sourceSchemes + ["htp"])
    func schemes(scheme: String) {
        let failure = Result { () throws(Failure) in try requireReadable(scheme + "://host/films/") }
        if case .failure(let failure) = failure {
            #expect(scheme == "htp" && failure.sentence.hasPrefix("no source is at htp://"))
        } else {
            #expect(scheme != "htp")
        }
    }

    @Test(
        "A server without a scheme is told from a file",
        arguments: [
            ("host:8080", true), ("192.168.1.5:80/films/", true), ("[::1]:80", true), ("host", false),
            ("./host:8080", false), ("/films:8080", false), ("a:b", false), ("host:", false),
        ])
    func hostAndPort(source: String, isRefused: Bool) {
        let failure = Result { () throws(Failure) in try requireReadable(source) }
        if case .failure(let failure) = failure {
            #expect(isRefused && failure.sentence == "a server is written with a scheme: http://HOST:PORT/")
        } else {
            #expect(!isRefused)
        }
    }

    @Test("A list of options is what its words say", arguments: good.indices)
    func accepted(index: Int) throws {
        var expected = MountOptions()
        Self.good[index].1(&expected)
        var options = MountOptions()
        try options.apply(list: Self.good[index].0)
        #expect(options == expected)
    }

    /// A text for each kind of value, other than every default.
    static let samples = [
        "key": "path", "cmd": "/bin/true",
        "dir": "/d", "file": "/f", "size": "3G", "time": "7h", "user": "7", "group": "7", "mask": "7",
        "line": "A: b", "text": "a, b", "level": "debug", "url": "http://h:1/", "region": "eu-west-1",
        "secret": "credential:films", "address": "[::1]:7", "bucket": "s3://shared/films",
        "rate": "08:00,2M 23:00,off", "n": "7",
    ]

    @Test(
        "An option means the same as a long option, in -o and in a file of options",
        arguments: OptionTable.rows.map(\.name).filter { $0 != "config" })
    func places(name: String) throws {
        let row = try #require(OptionTable[name])
        let value = try name == "align" ? "256K" : row.form.map { try #require(Self.samples[$0.name]) }
        var expected = MountOptions()
        try row.apply(&expected, name, value)
        #expect(expected != MountOptions())
        let words = ["reelfs", "mount", "http://h/", "/m", "--" + name] + (value.map { [$0] } ?? [])
        #expect(try #require(Program.parse(words) as? MountCommand).words.options() == expected)
        let word = name.split(separator: "-").joined(separator: "_") + (value.map { "=\"\($0)\"" } ?? "")
        #expect(try MountOptions(givenOptions(word)) == expected)
        try withTemporaryDirectory { root in
            let path = root + "/options"
            defer { unlink(path) }
            let descriptor = open(path, O_WRONLY | O_CREAT, 0o600)
            writeAll(descriptor, Array((name + (value.map { " = \($0)" } ?? "")).utf8))
            close(descriptor)
            expected.optionFile = path
            let inFile = try MountOptions([GivenOption("config", path)])
            #expect(inFile == expected)
        }
    }

    @Test(
        "The default that help shows is the default",
        arguments: OptionTable.rows.filter { $0.default != nil }.map(\.name))
    func defaults(name: String) throws {
        let row = try #require(OptionTable[name])
        var options = MountOptions()
        try row.apply(&options, name, row.default)
        #expect(options == MountOptions())
    }

    @Test(
        "Others are let in or not by one option, in -o, on the command line and by its old name",
        arguments: [
            (["-o", "allow_other"], true), (["-o", "allow_other=yes"], true), (["-o", "allow_other=no"], false),
            (["-o", "no_allow_other"], false), (["--allow-other"], true), (["--allow-other=yes"], true),
            (["--allow-other=no"], false), (["--no-allow-other"], false),
        ])
    func others(words: [String], areAllowed: Bool) throws {
        let command = try Program.parse(["reelfs", "mount"] + words + ["http://h/", "/m"]) as? MountCommand
        #expect(try #require(command).words.options().allowOther == areAllowed)
    }

    @Test("No name stands for two options")
    func names() {
        #expect(Set(OptionTable.rows.map(\.name)).count == OptionTable.rows.count)
    }

    @Test(
        "A relative path is refused in fstab", arguments: ["cache_dir=a", "config=a", "credentials=a/b", "header=@a"])
    func relative(word: String) throws {
        var options = MountOptions()
        let option = try #require(givenOptions(word).first)
        try options.apply(option)
        let failure = #expect(throws: Failure.self) { try options.apply(option, isInFstab: true) }
        #expect(failure?.sentence.contains("absolute") == true)
    }

    @Test(
        "The program of a command starts from the folder, and its arguments stay as they are",
        arguments: [
            ("./print films", ["/a \"b/./print", "films"]), ("bin/print bin/print", ["/a \"b/bin/print", "bin/print"]),
            (#" "my bin/print" x"#, ["/a \"b/my bin/print", "x"]), ("/bin/print a", ["/bin/print", "a"]),
            ("pass show a/b", ["pass", "show", "a/b"]),
        ])
    func commandPath(text: String, words: [String]) throws {
        let option = GivenOption("token_command", text).absolute(in: "/a \"b")
        #expect(Command(parsing: try #require(option.value))?.words == words)
    }

    static let bad = [
        ("colour=red", "\"colour\""), ("cache_size=10X", "cache-size"), ("cache_size=", "cache-size"),
        ("cache_size=99999999T", "cache-size"), ("cache_size=0", "cache-size"), ("cache_size=-1", "cache-size"),
        ("cache_size=G", "cache-size"), ("timeout=0", "timeout"), ("prebuffer=much", "prebuffer"),
        ("timeout=1.5", "timeout"), ("timeout", "timeout"),
        ("uid=nobody-of-that-name", "uid"), ("uid=4294967295", "uid"), ("umask=999", "umask"), ("umask=1000", "umask"),
        ("allow_other=1", "allow-other"), ("password=x", "credentials=FILE"), ("credentials", "credentials"),
        ("no_allow_other=1", "no-allow-other"), ("config=", "config"), ("header=nothing", "header"),
        ("header=A b: c", "header"),
        ("header=A: b\nC: d", "header"), ("header=: x", "header"), ("user_agent=a\u{7}", "user-agent"),
        ("log_level=loud", "log-level"), ("refresh=", "refresh"), ("refresh=5w", "refresh"),
        ("refresh=1.5h", "refresh"),
        ("refresh=-1", "refresh"), ("refresh=m", "refresh"),
    ]

    @Test("A wrong option is an error that names it and keeps its value to itself", arguments: bad)
    func refused(list: String, named: String) {
        var options = MountOptions()
        let failure = #expect(throws: Failure.self) { try options.apply(list: list) }
        #expect(failure?.status == .usage && failure?.sentence.contains(named) == true)
        #expect(failure?.sentence.contains("\n") == false)
    }

    @Test("What follows a header's comma may be its secret, and is not repeated", arguments: ["", "=x", ": y"])
    func brokenHeader(rest: String) {
        let list = "timeout=5,header=Cookie: a=1,secret\(rest),timeout=6"
        var options = MountOptions()
        let failure = #expect(throws: Failure.self) { try options.apply(list: list) }
        #expect(failure?.sentence.contains("secret") == false && failure?.sentence.contains("header=") == true)
        let visible = givenOptions(list).map { $0.visible }
        #expect(visible == ["timeout=5", "header=Cookie: …", "…", "timeout=6"])
    }

    @Test("mount -s ignores unknown words and nothing else")
    func sloppy() throws {
        var options = MountOptions()
        try options.apply(list: "colour=red,timeout=7", isSloppy: true)
        #expect(options.timeout == 7)
        #expect(throws: Failure.self) { try options.apply(list: "timeout=x", isSloppy: true) }
    }

    @Test("A file of options is read line by line")
    func optionFile() throws {
        let text = "# first\n\n  cache-size = 20G \ntimeout=5\r\nallow_other\nuser_agent=a = b, c # d\n"
        let expected = [
            GivenOption("cache-size", "20G", place: "/f, line 3"), GivenOption("timeout", "5", place: "/f, line 4"),
            GivenOption("allow_other", nil, place: "/f, line 5"),
            GivenOption("user_agent", "a = b, c # d", place: "/f, line 6"),
        ]
        #expect(try parseOptionFile(text, path: "/f") == expected)
    }

    @Test(
        "A wrong line is named with its file",
        arguments: ["timeout=x", "colour = red", "config=/g", "two words", "= 5", "allow_other=1"])
    func wrongLine(line: String) {
        var options = MountOptions()
        let failure = #expect(throws: Failure.self) {
            for option in try parseOptionFile("#\n" + line, path: "/f") { try options.apply(option) }
        }
        #expect(failure?.status == .usage && failure?.sentence.hasPrefix("/f, line 2: ") == true)
    }

    @Test("A file of headers is read line by line; one that is none, or wrong, is named and not repeated")
    func headerFile() throws {
        try withTemporaryDirectory { root in
            let path = root + "/headers"
            func load(_ text: String) throws(Failure) -> [String] {
                let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
                writeAll(descriptor, Array(text.utf8))
                close(descriptor)
                return try HeaderOption.load([.file(path)]).map { "\($0.name)=\($0.value)" }
            }
            #expect(try load("# mine\n\nA: b, c\r\n X-Key: d") == ["A=b, c", "X-Key=d"])
            let wrong = #expect(throws: Failure.self) { _ = try load("A: b\nsecret\n") }
            #expect(wrong?.sentence.contains("line 2") == true && wrong?.sentence.contains("secret") == false)
            let long = #expect(throws: Failure.self) { _ = try load(String(repeating: "A: b\n", count: 1 << 18)) }
            #expect(long?.sentence.contains("1 MiB") == true)
            unlink(path)
            try #require(mkfifo(path, 0o600) == 0)
            let pipe = #expect(throws: Failure.self) { _ = try HeaderOption.load([.file(path)]) }
            #expect(pipe?.sentence.contains("regular file") == true)
            unlink(path)
        }
    }

    @Test(
        "A file that others can write is refused, and one with secrets that others can read",
        .enabled(if: geteuid() == 0, "needs root to give files away"),
        arguments: [
            (mode_t(0o600), uid_t(0), true, true), (0o640, 0, true, false), (0o604, 0, true, false),
            (0o600, 61_234, false, false), (0o644, 0, true, false), (0o664, 0, false, false), (0o646, 0, false, false),
        ])
    func ownerAndMode(mode: mode_t, owner: uid_t, opensPlain: Bool, opensSecret: Bool) throws {
        try withTemporaryDirectory { root in
            let path = root + "/options"
            func load(_ text: String) throws {
                let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
                defer { unlink(path) }
                writeAll(descriptor, Array(text.utf8))
                try #require(fchown(descriptor, owner, 0) == 0 && fchmod(descriptor, mode) == 0)
                close(descriptor)
                if text.first == "A" { return _ = try HeaderOption.load([.file(path)]) }
                if text.first == "t" { return _ = try CredentialFile.load(path) }
                _ = try MountOptions([GivenOption("config", path)])
            }
            for (text, opens) in [
                ("A: b\n", opensSecret), ("token=x\n", opensSecret), (" timeout=5\n", opensPlain),
                (" timeout=5\nheader=A: b\n", opensSecret),
            ] {
                #expect(((try? load(text)) != nil) == opens, "\(text)")
            }
        }
    }

    @Test("Credentials are lines; what stands behind the sign counts as it is")
    func credentials() throws {
        let text = "# mine\n username=joe\npassword= a=b#c \nheader=X-Key: d\ntoken=e\n"
        let credentials = try CredentialFile(parsing: text, path: "/f")
        #expect((credentials.user, credentials.password) == ("joe", " a=b#c "))
        #expect(
            credentials.headers == [
                HeaderField(name: "X-Key", value: "d"),
                HeaderField(name: "Authorization", value: "Bearer e"),
            ])
    }

    @Test(
        "A source takes credentials in, and nothing else of it changes",
        arguments: [
            ("http://h/a?b@c", "joe", "p", "http://joe:p@h/a?b@c"),
            ("http://x:y@h:81", "joe", "p", "http://joe:p@h:81/"), ("http://h/\u{301}@e/", "joe", "p", nil),
            ("http://joe@h/", nil, "p@:/?#% é", "http://joe:p@:%2F%3F%23%25%20%C3%A9@h/"),
            ("http://h/", nil, nil, "http://h/"),
        ] as [(String, String?, String?, String?)])
    func insertion(source: String, user: String?, password: String?, expected: String?) throws {
        var credentials = try CredentialFile(parsing: "", path: "/f")
        (credentials.user, credentials.password) = (user, password)
        let url = try #require(ResourceURL(source))
        let text = credentials.source(url)
        #expect(text == expected ?? "http://joe:p@h/%CC%81@e/")
        #expect(ResourceURL(text)?.text == url.text)
        if let password { #expect(ResourceURL(text)?.credentials?.password == password) }
        // A scheme of its own stays, so that the source is of the same kind.
        let own = credentials.source(url, givenAs: " DAV" + source.dropFirst(4))
        #expect(
            own == "dav" + text.dropFirst(4) && SourceKinds.url(of: own)?.credentials == ResourceURL(text)?.credentials)
    }

    @Test(
        "fuse.conf allows by a line of its own",
        arguments: [
            ("user_allow_other", true), ("mount_max = 5\n  user_allow_other # yes\n", true),
            ("#user_allow_other", false),
            ("", false), ("user_allow_others", false),
        ])
    func fuseConfiguration(text: String, expected: Bool) {
        #expect(allowsOther(text) == expected)
    }

    @Test(
        "A source shows neither user nor password, and otherwise stays as it is, byte for byte",
        arguments: [
            ("http://h/a?b=c", "http://h/a?b=c"), ("http://token@h/", "http://***@h/"),
            ("http://u:p@h/a:b@c", "http://***@h/a:b@c"), ("https://u:p@x@h:80/", "https://***@h:80/"),
            ("http://h:80/@", "http://h:80/@"), ("/list.m3u", "/list.m3u"), ("http://u:@h", "http://***@h"),
            ("http://h/e\u{301}?\u{301}", "http://h/e\u{301}?\u{301}"), ("HTTP://u:p@H", "HTTP://***@H"),
            ("http://u:p\u{301}@\u{301}h/", "http://***@\u{301}h/"), ("/mnt/a:b@c", "/mnt/a:b@c"),
        ])
    func redaction(source: String, expected: String) {
        #expect(redacted(source).utf8.elementsEqual(expected.utf8))
    }

    @Test(
        "A source that may be a URL with its password in the wrong place is refused unseen",
        arguments: [
            "http://u:sesame#\u{301}x@h/", "http://u:sesame/\u{301}x@h/", "http://u:sesame?\u{301}x@h/",
            "http://u:sesame#x@h/", "http://sesame#x@h/", "http://sesame?x@h/", "http://u/#sesame@h/",
            "http:/\u{301}/u:sesame@h/", "http:/u:sesame@h/", "http:u:sesame@h", "HTTPS:\\\\u:sesame@h",
            "//u:sesame@h/",
            "u:sesame@h/films", "sesame@h/films", "gopher://u:sesame@h/", "http://u:sesame@h::/", "http://u:sesame@[h/",
            "://u:sesame@h/", "\u{301}http://u:sesame@h", "dav://sesame#x@h/", "davs://u:sesame/x@h/",
            "dav:u:sesame@h",
        ])
    func unreadable(source: String) {
        #expect { try requireReadable(source) } throws: { error in
            let sentence = (error as? Failure)?.sentence ?? ""
            let isRefused = ["is not a URL", "no source is at"].contains { sentence.contains($0) }
            return isRefused && !sentence.contains("sesame")
        }
        #expect(!withoutQuery(source).contains("sesame") || source.hasPrefix("sesame@") || ResourceURL(source) != nil)
        #expect(secretRange(Array(source.utf8), after: nil) != nil || source.hasPrefix("sesame@"))
    }

    @Test(
        "Other sources are read as they are",
        arguments: [
            "http://u:p@h/", "http://h/@films/", "http://h/a?mail=b@c", "list.m3u", "/mnt/a:b@c/x", "./a@b",
            "http://h/#x",
            "films.txt",
        ])
    func readable(source: String) throws { try requireReadable(source) }

    @Test(
        "Logs, status and ps show a source without user, password and query",
        arguments: [
            ("http://joe:p@h/a?b=c", "http://h/a?…"), ("http://token@h", "http://h/"),
            ("/mnt/list.m3u", "/mnt/list.m3u"),
            ("http://***@h/a", "http://h/a"), ("http://h/?\u{301}sesame", "http://h/?…"),
        ])
    func shownSource(source: String, expected: String) {
        #expect(withoutQuery(source) == expected)
    }

    @Test(
        "A URL in the wrong place shows neither user nor query, whatever stands in its password",
        arguments: [
            ("https://u:a/b?c#d@h/films", "https://***@h/films"), ("https://h/a?sig=secret", "https://h/a?…"),
            ("https://token@h/#secret", "https://***@h/?…"), ("Unexpected argument 'ftp://u:a@b@h'", nil),
            ("https://u:a\nb@h/?c", "https://***@h/?…"), ("/mnt/a?b@c", "/mnt/a?b@c"),
            ("http:/u:p@h", "http:/***@h"), ("Unexpected 'u:p@h'", "Unexpected '***@h'"), ("http:u:p@h", "http:***@h"),
            ("u:p@http://h/", "***@http://h/"), ("https://u:p\u{301}@h/?\u{301}c", "https://***@h/?…"),
            ("http:/\u{301}/u:p@h", "http:/***@h"),
        ] as [(String, String?)])
    func misplaced(text: String, expected: String?) {
        #expect(withoutSecrets(text) == expected ?? "Unexpected argument 'ftp://***@h'")
    }

    @Test("What may control a terminal is replaced")
    func controls() {
        #expect(shown("a\u{1B}b\u{7F}c\u{80}d\u{9F}e\u{A0}f") == "a?b?c?d?e\u{A0}f")
        #expect(printable("a\u{202E}b\u{2066}c\u{2028}d\r\n\te\u{301}\u{200D}") == "a?b?c?d???e\u{301}\u{200D}")
        #expect(printable(String(decoding: [0x61, 0x9B, 0xC2, 0x62], as: UTF8.self)) == "a\u{FFFD}\u{FFFD}b")
    }

    @Test("JSON has controls as escapes, and says the same")
    func escapedControls() throws {
        let name = "a\u{1B}[2J\u{7F}\u{85}\u{9B}\u{A0}\u{61C}\u{202E}\u{2069}\u{2028}é€😀\"\\"
        let line = encodeLine([name])
        #expect(decodeLine([String].self, line.dropLast()) == [name])
        let text = String(decoding: line.dropLast(), as: UTF8.self)
        #expect(text.contains("\\u007f\\u0085\\u009b\u{A0}\\u061c\\u202e\\u2069\\u2028é€😀"))
        #expect(printable(text) == text)
    }

    @Test(
        "Secrets of an argument are found",
        arguments: [
            ("http://u:p@h/", nil, "u:p"), ("http://token@h/", nil, "token"), ("u:p@h/", nil, "u:p"),
            ("http:/u:p@h", nil, "u:p"), ("X-Key: secret", "--header", " secret"),
            ("rw,header=A: b\\,c", "-o", " b\\,c"), ("--header=A: b", nil, " b"), ("/films", nil, nil),
            ("http://h/?header", nil, nil), ("@/etc/token", "--header", nil),
            ("https://u:a/b?c#d@e@h/", "--timeout", "u:a/b?c#d@e"),
            ("/é/tell --key=a", "--on-change", " --key=a"), ("--on-change=/tell \u{301}key", nil, " \u{301}key"),
            ("tell\tkey", "--token-command", "\tkey"), ("ro,token_command=a b,resolver=c d", "-o", " b,resolver=c d"),
            ("command:pass show films", "--encrypt", " show films"), ("encrypt=command:pass a", "-o", " a"),
            ("file:/a b", "--encrypt", nil), ("/tell", "--resolver", nil), ("X-Key: secret", "-H", " secret"),
            ("@/etc/token", "-H", nil), ("curl/8: a b", "-A", nil), ("command:pass a", "--to", " a"),
            ("--to=command:pass a", nil, " a"), ("20G", "--to", nil),
            ("header=@/etc/h,header='X-Key: sesame'", "-o", " sesame'"),
            ("encrypt=file:/k,resolver=/r,encrypt=command:pass a,header=A: b", "-o", " a,header=A: b"),
        ])
    func secrets(argument: String, previous: String?, expected: String?) {
        let bytes = Array(argument.utf8)
        #expect(secretRange(bytes, after: previous).map { String(decoding: bytes[$0], as: UTF8.self) } == expected)
    }

    @Test("An argument that is no UTF-8 hides no secret behind it")
    func secretBehindBytes() {
        let bytes = Array("/films-".utf8) + [0xFF, 0xC3] + Array("/tell key".utf8)
        #expect(secretRange(bytes, after: "--on-change") == bytes.count - 4..<bytes.count)
    }

    @Test(
        "Sizes read well",
        arguments: [
            (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (10 << 30, "10.0 GiB"),
            (123 << 20, "123 MiB"),
        ] as [(Int64, String)])
    func sizes(bytes: Int64, expected: String) {
        #expect(humanSize(bytes) == expected)
    }
}

extension MountOptions {
    /// The whole text of an `-o`.
    fileprivate mutating func apply(list: String, isSloppy: Bool = false) throws(Failure) {
        for option in givenOptions(list) { try apply(option, isSloppy: isSloppy) }
    }
}
