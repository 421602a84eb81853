import ReelCore
import ReelFilesystem
import Testing

@testable import ReelVolume

/// The second table of the page Errors; `ReadTests.failure` holds the errno of each error of the volume.
@Suite struct FailureTests {
    private static let often = 6

    static let rows: [(failure: OriginFailure, retries: Int, error: VolumeError)] =
        [
            (.unreachable("refused"), 2, .unreachable),
            (.away(.unreachable), 0, .offline), (.away(.silent), 0, .timedOut),
            (.unresolved, 0, .accessDenied),
            (.interrupted("reset"), often, .failed), (.timedOut, often, .timedOut),
        ] + [408, 429, 500, 503, 599].map { (.status($0, retryAfter: nil), often, .failed) }
        + [401, 403].map { (.status($0, retryAfter: nil), 0, .accessDenied) }
        + [404, 410].map { (.status($0, retryAfter: nil), 0, .stale) }
        + [400, 402, 405, 416, 451, 600].map { (.status($0, retryAfter: nil), 0, .failed) }
        + [(.wrongAnswer("x"), 0, .failed), (.untrusted("x"), 0, .failed), (.changed, 0, .stale)]

    @Test(arguments: rows) func eachFailureIsRetriedAndReportedAsThePageSays(
        failure: OriginFailure, retries: Int, error: VolumeError
    ) {
        let retried = (1...20).prefix { RetryPolicy.pause(after: failure, attempt: $0, random: 0.5) != nil }
        #expect(retried.count == retries && VolumeError(failure) == error)
    }
}
