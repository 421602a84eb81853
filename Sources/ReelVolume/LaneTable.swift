import ReelCore
import Synchronization

/// How many requests at a time fetch for one reader: known for each origin, shared by its files.
final class LaneTable: Sendable {
    private let lanes = Mutex<[String: Lanes]>([:])

    subscript(_ url: ResourceURL) -> Lanes {
        let origin = url.origin
        return lanes.withLock { lanes in
            if let known = lanes[origin] { return known }
            let new = Lanes()
            lanes[origin] = new
            return new
        }
    }
}

/// The same of one origin.
final class Lanes: Sendable {
    private let state = Mutex(Parallelism())

    var count: Int { state.withLock { $0.share } }

    /// A reader waits for what was fetched ahead. - Parameter rate: of one connection, bytes a second.
    func starved(_ file: RemoteFile, _ rate: Double?, _ now: Duration) -> Int {
        state.withLock { state in
            state.starved(ObjectIdentifier(file), rate: rate, now: now)
            return state.share
        }
    }

    /// - Returns: as many as there are now.
    func took(_ count: Int64, _ now: Duration) -> Int {
        state.withLock { state in
            state.took(count, now: now)
            return state.share
        }
    }

    func saw(_ failure: OriginFailure?, _ now: Duration) {
        guard case .status(let status, let retryAfter) = failure, status == 429 || status == 503 else { return }
        state.withLock { $0.refused(retryAfter: retryAfter, now: now) }
    }
}
