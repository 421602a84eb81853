import ReelCore
import ReelFilesystem

extension VolumeError {
    init(_ failure: ReadFailure) {
        self =
            switch failure {
            case .timedOut: .timedOut
            case .unreachable: .unreachable
            case .offline: .offline
            case .accessDenied: .accessDenied
            case .changed: .stale
            case .failed: .failed
            }
    }

    init(_ failure: OriginFailure) { self.init(failure.meaning.read) }

    /// For a sentence on a listing that did not come.
    var reason: String {
        switch self {
        case .accessDenied: "access is denied"
        case .stale: "it is gone"
        case .timedOut: "no answer came in time"
        case .unreachable, .offline: "the origin cannot be reached"
        default: "the answer is no listing"
        }
    }
}
