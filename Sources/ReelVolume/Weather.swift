import ReelCore
import ReelThreads
import Synchronization

/// Whether the origin could be reached a moment ago: who has the bytes does not ask again and again.
final class Weather: Sendable {
    private let cloudyUntil = Mutex<Duration>(.zero)

    var isCloudy: Bool { now() < cloudyUntil.withLock { $0 } }

    func saw(_ failure: OriginFailure?) {
        switch failure {
        // Refused at once costs little to try again; packets that vanish cost seconds.
        case .unreachable: cloudyUntil.withLock { $0 = now() + .seconds(2) }
        case .timedOut: cloudyUntil.withLock { $0 = now() + .seconds(10) }
        case .cancelled: break
        default: cloudyUntil.withLock { $0 = .zero }
        }
    }
}
