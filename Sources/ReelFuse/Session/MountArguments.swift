import CFuse
import Glibc
import ReelThreads

/// The reason why a mount failed.
package struct MountError: Error, Sendable {
    /// One sentence for the user, without secrets.
    package var message: String

    package init(message: String) { self.message = message }
}

/// libfuse's option parser takes `\` as escape and `,` as separator.
func escapedOption(_ text: String) -> String {
    String(text.flatMap { $0 == "\\" || $0 == "," ? ["\\", $0] : [$0] })
}

func mountArguments(_ options: FuseSession.Options) -> [String] {
    var words = ["fsname=" + escapedOption(options.source), "subtype=reelfs", "ro", "nodev", "nosuid"]
    // The kernel checks modes, and asks the daemon nothing.
    words.append("default_permissions")
    if options.allowOther { words.append("allow_other") }
    words.append("max_read=\(ReadBuffer.longestRead)")
    return ["reelfs"] + words.flatMap { ["-o", $0] }
}

func makeSession(
    _ options: FuseSession.Options, _ context: UnsafeMutableRawPointer?
) throws(MountError) -> OpaquePointer {
    LibraryLog.install()
    let words = mountArguments(options).map { strdup($0) }
    defer { for word in words { free(word) } }
    var pointers = words + [nil]
    var operations = makeOperations()
    let session = pointers.withUnsafeMutableBufferPointer { pointers in
        var arguments = fuse_args(argc: Int32(words.count), argv: pointers.baseAddress, allocated: 0)
        let session = reel_session_new(&arguments, &operations, context)
        fuse_opt_free_args(&arguments)
        return session
    }
    guard let session else { throw MountError(message: LibraryLog.last() ?? "libfuse refused the mount options") }
    return session
}

/// Keeps the last line that libfuse would print on stderr, for the sentence of an error.
enum LibraryLog {
    private static let line = Lock<String?>(nil)

    static func install() {
        line.withLock { $0 = nil }
        fuse_set_log_func(keepLibraryLine)
    }

    static func last() -> String? { line.withLock { $0 } }

    fileprivate static func keep(_ text: String) {
        line.withLock { $0 = text.hasSuffix("\n") ? String(text.dropLast()) : text }
    }
}

private func keepLibraryLine(_: fuse_log_level, _ format: UnsafePointer<CChar>?, _ arguments: CVaListPointer?) {
    guard let format, let arguments else { return }
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { buffer in
        vsnprintf(buffer.baseAddress!, buffer.count, format, arguments)
        LibraryLog.keep(String(cString: buffer.baseAddress!))
    }
}
