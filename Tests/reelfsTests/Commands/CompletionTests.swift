import ArgumentParser
import Glibc
import ReelFuse
import TestKit
import Testing

@testable import reelfs

/// Mount points as shells complete them: other users choose their names.
@Suite("Completed mount points", .serialized, .enabled(if: fuseIsUsable))
struct CompletionTests {
    /// What runs it makes `ran` in the working directory.
    static let name = #"$(touch ran)`touch ran`;a 'b':c\d"#

    /// The answer of a shell, which runs in an empty directory, while a directory of that name is a mount.
    static func completed(_ shell: String, _ script: String) throws -> (lines: [String], mountpoint: String) {
        try HelpTests.withGenerated { share in
            try CommandTests.withPlace(named: name) { place in
                try #require(
                    try CommandTests.run(["mount", place.source, place.mountpoint, "--cache-dir", place.cache]).status
                        == 0)
                let work = share + "/work"
                mkdir(work, 0o755)
                let programs = CommandTests.program.split(separator: "/").dropLast().reduce("") { $0 + "/" + $1 }
                let end = try ChildProcess.run(
                    [shell, "-c", script, shell, "\(share)/reelfs.\(shell)", place.mountpoint],
                    environment: ["PATH": "\(programs):/usr/bin:/bin"], directory: work)
                #expect(end.errors == "", "\(end)")
                #expect(files(below: work) == [], "a mount point's name was run")
                return (end.output.split(separator: "\n").map { String($0) }, place.mountpoint)
            }
        }
    }

    @Test("bash offers a mount point's name, whatever it holds, and runs nothing of it")
    func bash() throws {
        let script = """
            . "$1"; set -- "${2%/*}/"; COMP_LINE="reelfs umount $1" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
            COMP_WORDS=(reelfs umount "$1"); COMP_CWORD=2
            function=$(complete -p reelfs); function=${function#*-F }
            "${function%% *}" reelfs "$1" umount
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let (lines, mountpoint) = try Self.completed("bash", script)
        #expect(lines == [mountpoint])
    }

    @Test("fish offers it", .enabled(if: hasTool("fish"), "fish is missing"))
    func fish() throws {
        let script = """
            source $argv[2]; functions -c __reelfs_tokens tokens
            # Where in the word the cursor is, fish tells an editor only; nobody looks at it.
            function __reelfs_tokens; if test $argv[1] = -tC; echo 0; else; tokens $argv; end; end
            printf '%s\\n' (complete --do-complete "reelfs umount "(dirname $argv[3])/)
            """
        let (lines, mountpoint) = try Self.completed("fish", script)
        #expect(lines == [mountpoint])
    }

    @Test("zsh gets it with what _describe takes away", .enabled(if: hasTool("zsh"), "zsh is missing"))
    func zsh() throws {
        // _describe works within the line editor only: this stands for it, and prints the array that it is given.
        let script = """
            compdef() { }; _describe() { print -rl -- "${(@P)3}"; }
            . "$1"; command_name=reelfs; command_line=(reelfs umount '')
            SAP_SHELL=zsh __reelfs_custom_complete ---completion umount -- positional@0 2 0
            """
        let (lines, mountpoint) = try Self.completed("zsh", script)
        #expect(lines.contains(completion(mountpoint, for: .zsh) ?? ""), "\(lines)")
    }

    static let written: [(path: String, bash: String?, zsh: String?)] = [
        ("/srv/films", "'/srv/films'", "/srv/films"),
        ("/a b$(x)", "'/a b$(x)'", "/a b$(x)"),
        ("/a'b", #"'/a'\''b'"#, "/a'b"),
        ("/a'\u{301}b", "'/a'\\''\u{301}b'", "/a'\u{301}b"),
        (#"/a:b\c"#, #"'/a:b\c'"#, #"/a\:b\\c"#),
        ("/a\nb", nil, nil), ("/a\tb", nil, nil), ("/a\u{1B}[2J", nil, nil), ("/a\u{9B}2J", nil, nil),
    ]

    @Test(
        "A mount point is quoted as its shell's script reads it; one with control characters is left out",
        arguments: written.indices)
    func form(index: Int) {
        let (path, bash, zsh) = Self.written[index]
        #expect(completion(path, for: .bash) == bash && completion(path, for: nil) == bash)
        #expect(completion(path, for: .zsh) == zsh)
        #expect(completion(path, for: .fish) == (bash == nil ? nil : path))
    }
}
