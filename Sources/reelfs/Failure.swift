import Glibc

/// A command's error: one sentence, without secrets, and a status of mount(8).
struct Failure: Error, Hashable, Sendable {
    enum Status: Int32, Sendable {
        /// Wrong words on the command line, or in a file of options.
        case usage = 1
        /// The system gives no process, no descriptor, no namespace.
        case system = 2
        /// The daemon ended without saying why.
        case `internal` = 4
        /// A signal came before the mount answered.
        case interrupted = 8
        /// A mount could not be made or ended, or its daemon could not perform the request.
        case mount = 32
    }

    var status: Status
    /// Without a capital letter and a full stop: "reelfs: " is put before it.
    var sentence: String

    /// A failure of ``Status/usage``.
    static func usage(_ sentence: String) -> Failure { Failure(status: .usage, sentence: sentence) }
    /// A failure of ``Status/mount``.
    static func mount(_ sentence: String) -> Failure { Failure(status: .mount, sentence: sentence) }

    /// Writes the sentence to stderr. - Returns: the exit status.
    func printed() -> Int32 {
        writeLine("reelfs: \(sentence)")
        return status.rawValue
    }
}

/// An errno in words, as of strerror(3).
func reason(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }
