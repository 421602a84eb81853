import ReelCore

extension VolumeError {
    init(_ failure: Ledger.ReadFailure) {
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

    init(_ failure: OriginFailure) { self.init(Ledger.ReadFailure(failure)) }
}
