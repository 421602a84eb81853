import ArgumentParser
import ReelFuse

extension CompletionKind {
    /// The mount points of reelfs. Other users choose these names, so each is escaped for its shell's script.
    static var mountpoints: CompletionKind {
        .custom { _, _, _ in
            let paths = Mount.all().filter { $0.isOurs }.map { $0.mountpoint }
            return paths.compactMap { completion($0, for: CompletionShell.requesting) }
        }
    }
}

/// A path as a line for a shell's completion script; nil if it cannot be written in one line.
func completion(_ path: String, for shell: CompletionShell?) -> String? {
    guard printable(path) == path else { return nil }
    return switch shell {
    // complete -a takes a line up to a tab as it is.
    case CompletionShell.fish: path
    // _describe reads a description behind a colon, and removes a backslash before either.
    case CompletionShell.zsh: escaped(path) { $0 == ":" || $0 == "\\" ? "\\\($0)" : "\($0)" }
    // compgen -W expands each word as a shell does, command substitutions included.
    default: "'" + escaped(path) { $0 == "'" ? "'\\''" : "\($0)" } + "'"
    }
}

/// Escapes scalars, not characters, which may be a quote with a mark that combines with it.
private func escaped(_ path: String, _ form: (Unicode.Scalar) -> String) -> String {
    path.unicodeScalars.reduce(into: "") { $0 += form($1) }
}
