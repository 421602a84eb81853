import ArgumentParser
import ReelFuse

extension CompletionKind {
    /// Where something of ours is mounted right now. Other users choose these names, so each is written as its shell's
    /// script reads it as text and nothing more.
    static var mountpoints: CompletionKind {
        .custom { _, _, _ in
            let paths = Mount.all().filter { $0.isOurs }.map { $0.mountpoint }
            return paths.compactMap { completion($0, for: CompletionShell.requesting) }
        }
    }
}

/// A path as a line of the answer to a shell's completion script; nil where it cannot stand in a line.
func completion(_ path: String, for shell: CompletionShell?) -> String? {
    guard printable(path) == path else { return nil }
    return switch shell {
    // complete -a takes a line up to a tab as it is.
    case CompletionShell.fish: path
    // _describe takes what follows a colon for a description, and a backslash before either away.
    case CompletionShell.zsh: escaped(path) { $0 == ":" || $0 == "\\" ? "\\\($0)" : "\($0)" }
    // compgen -W expands each word as a shell does: command substitutions, too.
    default: "'" + escaped(path) { $0 == "'" ? "'\\''" : "\($0)" } + "'"
    }
}

/// By scalars: a character may be a quote with a mark that combines with it.
private func escaped(_ path: String, _ form: (Unicode.Scalar) -> String) -> String {
    path.unicodeScalars.reduce(into: "") { $0 += form($1) }
}
