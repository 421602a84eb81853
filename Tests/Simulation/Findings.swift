import ReelThreads
import Synchronization

/// What has gone wrong, in the order in which it was found.
final class Findings: Sendable {
    private let sentences = Mutex<[String]>([])

    var all: [String] { sentences.withLock { $0 } }

    func find(_ sentence: String) {
        Simulation.tell("FOUND \(sentence)")
        // The first of each is enough.
        sentences.withLock { if !$0.contains(sentence) { $0.append(sentence) } }
    }
}
