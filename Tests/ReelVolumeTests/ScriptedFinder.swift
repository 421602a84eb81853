import ReelCore
import Synchronization
import TestKit

@testable import ReelVolume

/// A resolver whose every answer is the test's.
final class ScriptedFinder: PlaceFinder {
    private let questions = Mutex<[PlaceQuestion]>([])
    private let answer: @Sendable (PlaceQuestion, Int) -> Result<PlaceAnswer, PlaceFailure>

    /// - Parameter answer: gets the question and its number, 1 for the first; may wait.
    init(_ answer: @escaping @Sendable (PlaceQuestion, Int) -> Result<PlaceAnswer, PlaceFailure>) {
        self.answer = answer
    }

    var asked: [PlaceQuestion] { questions.withLock { $0 } }

    func find(_ question: PlaceQuestion, within _: Duration) -> Result<PlaceAnswer, PlaceFailure> {
        let number = questions.withLock { questions in
            questions.append(question)
            return questions.count
        }
        return answer(question, number)
    }

    func stop() {}

    /// The list of a mount whose files a resolver finds.
    static func list(_ films: [String] = ["film.mkv"]) -> [ServerStep] {
        ServerStep.answer(
            200, [("Content-Type", "audio/x-mpegurl")],
            body: "#EXTM3U\n" + films.map { "http://pages.invalid/\($0)\n" }.joined())
    }
}
