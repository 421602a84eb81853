import Glibc

/// How a command ends when it does not do its work: one sentence, without secrets, and a status as mount(8) has them.
package struct Failure: Error, Hashable, Sendable {
    package enum Status: Int32, Sendable {
        /// Wrong words on the command line.
        case usage = 1
        /// The system gives no process, no descriptor, no namespace.
        case system = 2
        /// The daemon ended without a word.
        case `internal` = 4
        /// A signal came before the mount answered.
        case interrupted = 8
        /// The mount could not be made or ended, nobody answers.
        case mount = 32
    }

    package var status: Status
    package var sentence: String

    package static func usage(_ sentence: String) -> Failure { Failure(status: .usage, sentence: sentence) }
    package static func mount(_ sentence: String) -> Failure { Failure(status: .mount, sentence: sentence) }

    func printed() -> Int32 {
        writeLine("reelfs: \(sentence)")
        return status.rawValue
    }
}

/// What strerror(3) says, for sentences.
func reason(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }
