/// Why a directory's listing could not be refreshed.
package enum ListingTrouble: Hashable, Sendable {
    case unreachable, timedOut
    /// 404 and 410 among them.
    case status(Int)
    /// A page, but none that lists a directory: a login, an error with status 200.
    case noListing
    case cutShort
    /// No entries, where there were some.
    case empty
    /// An answer of no use: encoded, too large, of a host that is not trusted.
    case failed

    /// For status and logs, such as `status-404`.
    package var name: String {
        switch self {
        case .unreachable: "unreachable"
        case .timedOut: "timed-out"
        case .status(let status): "status-\(status)"
        case .noListing: "no-listing"
        case .cutShort: "cut-short"
        case .empty: "empty"
        case .failed: "failed"
        }
    }

    /// The origin says that there is no such directory.
    package var isMissing: Bool {
        guard case .status(let status) = self else { return false }
        return OriginFailure.status(status, retryAfter: nil).meaning.isMissing
    }

    /// Takes entries away once a second refresh says the same.
    fileprivate var takesAway: Bool { self == .empty || isMissing }

    /// The trouble of a listing whose request failed.
    package init(_ failure: OriginFailure) {
        self =
            switch (failure, failure.meaning.read) {
            case (.status(let status, _), _): .status(status)
            case (.interrupted, _): .cutShort
            case (_, .unreachable), (_, .offline): .unreachable
            case (_, .timedOut): .timedOut
            case (_, .accessDenied), (_, .changed), (_, .failed): .failed
            }
    }
}

/// The doubt about a listing that stays in place although the origin did not repeat it.
///
/// An error changes nothing, however often it comes. An answer that takes entries away for good, an empty listing or a
/// 404, is believed when two refreshes in a row say the same.
package struct ListingDoubt: Hashable, Sendable {
    /// What a refresh does to the listing.
    package enum Verdict: Hashable, Sendable {
        /// The new listing replaces the old one.
        case believe
        /// The old one stays, marked.
        case keep
        /// The directory is no more.
        case gone
    }

    /// The latest trouble.
    package let trouble: ListingTrouble
    /// When the first refresh failed since the last good one: seconds since 1970.
    package let since: Int64
    /// When the origin first gave this answer, of a row of equal ones; only for answers that the second time is
    /// believed.
    private var firstTold: Duration?

    /// Settles one refresh of a directory that has a listing with entries.
    /// - Parameters:
    ///   - doubt: nil where the last refresh was good; set to the doubt from now on, nil once the answer is believed.
    ///   - trouble: nil for a listing with entries.
    ///   - apart: the least time between two answers that say the same.
    package static func settle(
        _ doubt: inout ListingDoubt?, _ trouble: ListingTrouble?, apart: Duration, now: Duration, date: Int64
    ) -> Verdict {
        guard let trouble else {
            doubt = nil
            return .believe
        }
        let last = doubt
        doubt = ListingDoubt(trouble: trouble, since: last?.since ?? date)
        guard trouble.takesAway else { return .keep }
        // 404 and 410 say the same.
        let told = (last?.trouble == .empty) == (trouble == .empty) ? last?.firstTold : nil
        doubt?.firstTold = told ?? now
        guard let told, now - told >= apart else { return .keep }
        guard trouble == .empty else { return .gone }
        doubt = nil
        return .believe
    }

    /// The next refresh may take entries away.
    package var isWaitingForConfirmation: Bool { firstTold != nil }
}
