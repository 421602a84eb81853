import ArgumentParser
import Glibc
import TestKit
import Testing

@testable import reelfs

/// What the program says of itself, and what is made of that: man pages and completions.
@Suite("Help")
struct HelpTests {
    /// Each command, as its words.
    static let commands: [[String]] = {
        func below(_ type: any ParsableCommand.Type, _ words: [String]) -> [[String]] {
            [words] + type.configuration.subcommands.flatMap { below($0, words + [$0._commandName]) }
        }
        return below(Reelfs.self, [])
    }()

    @Test(
        "The help of every command fits a terminal, says what it does, and leaves no option unexplained",
        arguments: commands)
    func complete(words: [String]) throws {
        let end = try ChildProcess.run([CommandTests.program] + words + ["--help"])
        let lines = end.output.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(end.status == 0 && end.errors.isEmpty)
        #expect(lines[0].hasPrefix("OVERVIEW: ") && lines[0].count > 20, "\(lines[0])")
        #expect(lines.allSatisfy { $0.count <= 80 }, "\(lines.filter { $0.count > 80 })")
        let isGrouped = lines.contains("\(OptionRow.Group.common.rawValue.uppercased()):")
        #expect(lines.count <= (isGrouped ? 80 : 60), "too long to be read: \(lines.count) lines")
        // An option's text stands behind it from column 27 on, or on the next line.
        for (line, next) in zip(lines, lines.dropFirst()) where line.hasPrefix("  -") || line.hasPrefix("  <") {
            let isExplained = line.count > 26 || next.hasPrefix(String(repeating: " ", count: 26))
            #expect(isExplained, "\(words.joined(separator: " ")): \(line)")
        }
    }

    static let mistakes: [([String], String)] = [
        (["mount"], "reelfs mount --help"), (["umount"], "reelfs umount --help"),
        (["umount", "--force", "/tmp"], "reelfs umount --help"),
        (["mount", "--colour", "http://h/", "/tmp"], "reelfs mount --help"),
        (["cache", "lst"], "reelfs cache --help"), (["cache", "prune", "--to"], "reelfs cache prune --help"),
        (["staus"], "reelfs --help"), (["--colour"], "reelfs --help"),
    ]

    @Test("A mistake points to the help of its own command", arguments: mistakes.indices)
    func pointer(index: Int) throws {
        let (words, help) = Self.mistakes[index]
        let end = try ChildProcess.run([CommandTests.program] + words)
        #expect(end.status == 1 && end.errors.hasSuffix(" (see `\(help)`)\n"), "\(end)")
    }

    @Test(
        "A word that is no command is named, with the nearest one",
        arguments: [
            ("statsu /mnt", "'statsu' is no command: the nearest is `reelfs status` (see `reelfs --help`)"),
            ("unmonut /mnt", "'unmonut' is no command: the nearest is `reelfs unmount` (see `reelfs --help`)"),
            ("cache lst x", "'lst' is no command: the nearest is `reelfs cache list` (see `reelfs cache --help`)"),
            ("dance --wildly", "'dance' is no command (see `reelfs --help`)"),
            ("find /mnt", "'find' is no command (see `reelfs --help`)"),
        ])
    func unknownCommand(words: String, sentence: String) throws {
        let end = try ChildProcess.run([CommandTests.program] + words.split(separator: " ").map(String.init))
        #expect(end.status == 1 && end.output.isEmpty && end.errors == "reelfs: \(sentence)\n")
    }

    @Test("A sentence of the parser begins as all others, and without its words the program says so")
    func sentences() throws {
        let end = try ChildProcess.run([CommandTests.program, "pin"])
        #expect(end.errors.hasPrefix("reelfs: missing expected argument"), "\(end)")
        // As in a chroot without /proc.
        #expect(Program.run([]) == 2 && Program.run([""]) == 2)
    }

    /// The options that mean nothing without a mount.
    static let ofMountpoint: Set<String> = ["uid", "gid", "umask", "allow-other", "foreground"]

    @Test("Commands list the options of their scope")
    func scopes() {
        func listed(_ help: String) -> Set<String> {
            Set(
                help.split(separator: "\n").compactMap { line in
                    line.split(separator: " ").first { $0.hasPrefix("--") }.map { String($0.dropFirst(2)) }
                })
        }
        func rows(_ scope: OptionRow.Scope) -> Set<String> {
            Set(OptionTable.rows.filter { $0.scope.contains(scope) && !$0.scope.contains(.hidden) }.map(\.name))
        }
        // The parser's, mount(8)'s, and every filesystem's.
        #expect(listed(MountCommand.helpMessage(columns: 500)) == rows(.mountpoint).union(["help", "verbose"]))
        #expect(listed(ServeCommand.helpMessage(columns: 500)) == rows(.serve).union(["help"]))
        #expect(rows(.mountpoint).subtracting(rows(.serve)) == Self.ofMountpoint)
        #expect(
            listed(DoctorCommand.helpMessage(columns: 500)) == rows(.doctor).union(["help", "duration", "json"]))
        #expect(listed(CacheListCommand.helpMessage(columns: 500)) == rows(.cache).union(["help", "json"]))
    }

    @Test("Help has the options in groups, and the ten that most people need first")
    func groups() {
        let help = MountCommand.helpMessage(columns: 80)
        #expect(OptionTable.shown(in: .common).count == 10)
        let names = help.split(separator: "\n").compactMap { line in
            line.hasPrefix("  -") ? line.split(separator: " ").first { $0.hasPrefix("--") } : nil
        }
        let grouped = OptionRow.Group.allCases.flatMap { OptionTable.shown(in: $0) }.map { "--" + $0.name }
        #expect(names.prefix(grouped.count).map { String($0) } == grouped)
        let titles = help.split(separator: "\n").filter { $0.hasSuffix(":") && !$0.hasPrefix(" ") }
        let expected = ["Arguments"] + OptionRow.Group.allCases.map(\.rawValue) + ["Options"]
        #expect(titles.map { String($0) } == expected.map { $0.uppercased() + ":" })
        let few = CacheListCommand.helpMessage(columns: 80)
        #expect(!few.contains("MOST USED"), "\(few)")
    }

    @Test("The page of options has the program's tables")
    func page() throws {
        let table = OptionRow.Group.allCases.map { group in
            let rows = OptionTable.shown(in: group).map { row in
                let value = row.form.map { " " + $0.name.uppercased() } ?? ""
                let defaultText = row.default.map { "`\($0)`" } ?? row.unset ?? ""
                return "| `--\(row.name)\(value)` | \(row.help) | \(defaultText) |"
            }
            let head = ["### \(group.rawValue)", "", "| option | meaning | default |", "|---|---|---|"]
            return (head + rows).joined(separator: "\n")
        }.joined(separator: "\n\n")
        let text = contents(of: repository + "/Sources/reelfs/Documentation.docc/Options.md")
        let start = try #require(text.firstRange(of: "<!-- options -->\n")).upperBound
        let end = try #require(text.firstRange(of: "\n<!-- end of options -->")).lowerBound
        #expect(text[start..<end] == table, "Options.md should say:\n\(table)")
    }

    /// What `mount-helpers/generate` makes of the program under test, file by file: made once, as it takes seconds.
    private static let generated = Result {
        try withTemporaryDirectory { folder in
            let share = folder + "/share"
            defer { removeTree(share) }
            let words = [repository + "/mount-helpers/generate", CommandTests.program, share]
            let end = try ChildProcess.run(words, within: .seconds(60))
            try #require(end.status == 0, "\(end)")
            let list = try ChildProcess.run(["find", share, "-type", "f", "-printf", "%P\\n"]).output
            let names = list.split(separator: "\n").map { String($0) }
            let files = names.map { ($0, Array(contents(of: share + "/" + $0).utf8)) }
            return Dictionary(uniqueKeysWithValues: files)
        }
    }

    /// - Parameter body: gets a folder with these files.
    static func withGenerated<Value>(_ body: (String) throws -> Value) throws -> Value {
        try withTemporaryDirectory { folder in
            let share = folder + "/share"
            defer { removeTree(share) }
            for place in [share, share + "/help"] { mkdir(place, 0o755) }
            for (name, bytes) in try generated.get() {
                let file = open(share + "/" + name, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
                defer { close(file) }
                writeAll(file, bytes)
            }
            return try body(share)
        }
    }

    private static func titles(in page: String) -> [String] {
        page.split(separator: "\n").filter { $0.hasPrefix(".Ss ") }.map { String($0.dropFirst(4)) }
    }

    @Test("mount.reelfs(8) knows every word of -o")
    func manualOfMount() throws {
        try Self.withGenerated { share in
            let page = contents(of: share + "/mount.reelfs.8")
            for row in OptionTable.rows {
                let word = row.name.split(separator: "-").joined(separator: "_")
                #expect(page.split(separator: "\n").contains { $0.hasPrefix(".It Cm " + word) }, "\(word)")
            }
            #expect(Self.titles(in: page).starts(with: OptionRow.Group.allCases.map(\.rawValue)))
            let words = Set(page.split { " \n,".contains($0) }.map { String($0) })
            #expect(Set(ignoredWords).subtracting(words) == [])
        }
    }

    @Test("reelfs(1) knows every command and every option")
    func manualOfCommands() throws {
        try Self.withGenerated { share in
            let page = contents(of: share + "/reelfs.1")
            let lines = Set(page.split(separator: "\n"))
            for words in Self.commands where words.count == 2 || words.count == 1 && words != ["cache"] {
                #expect(lines.contains(".Ss reelfs " + words.joined(separator: " ")), "\(words)")
            }
            for row in OptionTable.rows where !row.scope.contains(.hidden) {
                let short = row.letter.map { "Fl \($0) , " } ?? ""
                #expect(lines.contains { $0.hasPrefix(".It \(short)Fl -\(row.name)") }, "\(row.name)")
            }
        }
    }

    static let manuals = ["reelfs.1", "reelfs.toml.5", "reelfs-http.7", "reelfs-sources.7", "mount.reelfs.8"]

    @Test("The man pages are sound", .enabled(if: hasTool("mandoc"), "mandoc is missing"))
    func sound() throws {
        try Self.withGenerated { share in
            for page in Self.manuals {
                let end = try ChildProcess.run(["mandoc", "-T", "lint", "-W", "warning", share + "/" + page])
                #expect(end.status == 0 && end.output.isEmpty, "\(end)")
            }
        }
    }

    @Test(
        "man shows the pages without a warning, and each command on a line of its own in the synopsis",
        .enabled(if: hasTool("groff"), "groff is missing"))
    func shownByGroff() throws {
        try Self.withGenerated { share in
            for page in Self.manuals {
                let words = ["groff", "-Kutf8", "-mandoc", "-Tutf8", "-P-cbou", "-ww", share + "/" + page]
                let end = try ChildProcess.run(words)
                #expect(end.status == 0 && end.errors.isEmpty, "\(page): \(end.errors)")
                guard page == "reelfs.1" else { continue }
                let lines = end.output.split(separator: "\n")
                for command in Self.commands where command.count == 2 || command.count == 1 && command != ["cache"] {
                    // Releases of groff differ in the blanks before them and between them.
                    let words = ["reelfs"] + command
                    let isThere = lines.prefix(30).contains { line in
                        line.hasPrefix(" ") && line.split(separator: " ").map(String.init).starts(with: words)
                    }
                    #expect(isThere, "\(words)")
                }
            }
        }
    }

    @Test("The completions can be read by their shells", arguments: ["bash", "zsh", "fish"].filter(hasTool))
    func readable(shell: String) throws {
        try Self.withGenerated { share in
            let end = try ChildProcess.run([shell, "-n", "\(share)/reelfs.\(shell)"])
            #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
        }
    }

    static let completed: [(line: String, words: Set<String>)] = [
        ("reelfs um", ["umount"]), ("reelfs cache pr", ["prune"]),
        ("reelfs mount --cache-", ["--cache-dir", "--cache-size", "--cache-key", "--cache-age"]),
        ("reelfs mount --log-level not", ["notice"]), ("reelfs mount http://h/ /usr/sbi", ["/usr/sbin"]),
        ("reelfs mount --credentials /etc/host.c", ["/etc/host.conf"]),
    ]

    @Test("bash completes commands, options, their values, files and directories", arguments: completed.indices)
    func completion(index: Int) throws {
        let (line, words) = Self.completed[index]
        // As readline calls it.
        let script = """
            . "$1"; COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            function=$(complete -p reelfs); function=${function#*-F }
            "${function%% *}" reelfs "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        try Self.withGenerated { share in
            let end = try ChildProcess.run(["bash", "--norc", "-c", script, "bash", share + "/reelfs.bash", line])
            #expect(Set(end.output.split(separator: "\n").map { String($0) }) == words, "\(end)")
        }
    }

    @Test("make install puts man pages, completions and links beside the program; uninstall leaves nothing")
    func installation() throws {
        try Self.withGenerated { share in
            try withTemporaryDirectory { root in
                let tree = root + "/a tree"
                defer { removeTree(tree) }
                func make(_ target: String) throws {
                    let end = try ChildProcess.run([
                        "make", "-C", repository, target, "DESTDIR=\(tree)", "PREFIX=/usr/local", "SBINDIR=/sbin",
                        "PROGRAM=\(CommandTests.program)", "SHARE=\(share)",
                    ])
                    try #require(end.status == 0, "\(end)")
                }
                func files() throws -> Set<String> {
                    let end = try ChildProcess.run(["find", ".", "!", "-type", "d"], directory: tree)
                    return Set(end.output.split(separator: "\n").map { String($0.dropFirst()) })
                }
                try make("install-built")
                let installed = try files()
                let expected: Set<String> = [
                    "/usr/local/bin/reelfs", "/sbin/mount.reelfs", "/sbin/mount.fuse.reelfs",
                    "/usr/local/share/man/man8/mount.fuse.reelfs.8", "/usr/local/share/reelfs/help/topics.txt",
                    "/usr/local/share/bash-completion/completions/reelfs",
                    "/usr/local/share/zsh/site-functions/_reelfs",
                    "/usr/local/share/fish/vendor_completions.d/reelfs.fish",
                    "/usr/local/share/doc/reelfs/examples/fstab.example",
                ]
                #expect(expected.subtracting(installed) == [])
                for page in Self.manuals {
                    #expect(installed.contains("/usr/local/share/man/man\(page.suffix(1))/\(page)"))
                }
                try expectTopics(of: tree + "/usr/local/bin/reelfs")
                let version = try ChildProcess.run([tree + "/usr/local/bin/reelfs", "--version"])
                #expect(version.output == "reelfs \(Program.version)\n", "\(version)")
                try make("uninstall")
                #expect(try files() == [])
                #expect(access(tree + "/usr/local/share/doc/reelfs", F_OK) != 0)
                #expect(access(tree + "/usr/local/share/reelfs", F_OK) != 0)
            }
        }
    }

    /// `reelfs help TOPIC` of an installed program.
    private func expectTopics(of program: String) throws {
        func help(_ word: String) throws -> ChildProcess.End { try ChildProcess.run([program, "help", word]) }
        let topics = try help("topics").output
        #expect(topics.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(topics)")
        for word in ["logins", "catalogue", "http", "encryption"] {
            let end = try help(word)
            #expect(end.status == 0 && end.output.count > 1000 && topics.contains("    \(word) "), "\(word): \(end)")
            #expect(!end.output.contains("Tests.") && !end.output.contains("]("), "\(end)")
        }
        let both = try help("offline").output
        #expect(both.contains("USAGE: reelfs offline ") && both.contains("OFFLINE\n"))
        #expect(try help("umount").output.contains("USAGE: reelfs umount "))
        for (word, near) in [("lgins", "the nearest is logins; "), ("../logins", ""), ("dancing", "")] {
            let end = try help(word)
            let start = "reelfs: '\(word)' is no command and no topic: \(near)topics are cache, catalogue, "
            #expect(end.status == 1 && end.errors.hasPrefix(start), "\(end)")
        }
    }

    @Test("Each page for those who use reelfs is a topic of `reelfs help`")
    func topics() throws {
        let overview = PageTests.tables(in: contents(of: repository + "/Sources/reelfs/Documentation.docc/reelfs.md"))
        let pages = overview.prefix(3).flatMap { $0.dropFirst(2) }.flatMap { row in
            row[0].matches(of: #/\((\w+)\.md\)/#).map { String($0.1) }
        }
        #expect(pages.count > 20)
        let script = contents(of: repository + "/mount-helpers/man/pages.py")
        // How the figures and threats were found concerns no use of the program.
        for page in pages where !["ThreatModel", "Benchmarks"].contains(page) {
            #expect(script.contains("\"\(page)\""), "TOPICS of mount-helpers/man/pages.py lacks \(page)")
        }
    }

    @Test("Without its manual the program says where it should be")
    func noManual() throws {
        let end = try ChildProcess.run([CommandTests.program, "help", "logins"])
        #expect(end.status == 1 && end.errors.contains("the manual is not installed in /"), "\(end)")
    }

    @Test("The list of files has the program first, also where no program is named")
    func list() throws {
        let end = try ChildProcess.run([
            "env", "--unset=PROGRAM", "--unset=SHARE", "--unset=DESTDIR", "PREFIX=/usr/local", "SBINDIR=/sbin",
            "UNITDIR=/usr/local/lib/systemd", "ZSHDIR=/usr/local/share/zsh", repository + "/mount-helpers/files",
            "list",
        ])
        #expect(end.output.hasPrefix("/usr/local/bin/reelfs\n/sbin/mount.reelfs\n"), "\(end)")
    }

    /// A user who may read the sources and nothing else.
    static let asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    static let nobodyReads =
        geteuid() == 0
        && (try? ChildProcess.run(asNobody + ["test", "-r", repository + "/mount-helpers/files"]).status) == 0

    @Test(
        "What is installed through sudo has mount.reelfs where mount(8) looks for it",
        .enabled(if: nobodyReads, "needs root, and sources that others may read"),
        arguments: ["/usr/local", "/opt/reelfs"])
    func placeOfHelper(prefix: String) throws {
        let words = ["make", "--dry-run", "-C", repository, "install-built", "PREFIX=\(prefix)"]
        let end = try ChildProcess.run(Self.asNobody + words)
        #expect(end.output.contains("sudo env DESTDIR='' PREFIX='\(prefix)' SBINDIR='/sbin' "), "\(end)")
    }
}

func hasTool(_ name: String) -> Bool {
    ["/usr/bin/", "/bin/", "/usr/local/bin/"].contains { access($0 + name, X_OK) == 0 }
}
