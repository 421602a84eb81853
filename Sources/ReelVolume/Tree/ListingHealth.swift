import Glibc
import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// The directories whose listing could not be refreshed: why, and when to ask again. It is kept apart from the nodes,
/// which the kernel forgets.
///
/// A mark ends with a good listing, when the tree has the directory no longer, or with the outage that was its only
/// trouble: the listing is then due, as that of any other directory that nobody has looked at.
final class ListingHealth: Sendable {
    private struct Condition {
        var doubt: ListingDoubt
        var isGone: Bool
        /// The tree has it: else only a program that stands in it sees it, and its trouble is none of the tree's.
        var isListed: Bool
        /// Like `ResourceURL.origin`; nil if it is a local file.
        let origin: String?
        /// On the clock of `now()`.
        var askAgain: Duration
    }

    /// A look this long after an error starts the next attempt.
    private static let pause = Duration.seconds(5)

    private let conditions = Lock<[String: Condition]>([:])
    /// How old a listing may be.
    private let refresh: Duration
    /// Listings up to then are too old, in seconds since 1970.
    private let expiry = Atomic<Int64>(.min)

    init(refresh: Duration) { self.refresh = refresh }

    /// Whether a listing should be asked for again.
    /// - Parameters:
    ///   - longestAge: how old it may be, nil if it never changes.
    ///   - fetchedAt: seconds since 1970.
    func isDue(_ place: SourcePlace, _ longestAge: Duration?, fetchedAt: Int64) -> Bool {
        guard let longestAge else { return false }
        if let askAgain = conditions.withLock({ $0[place.key]?.askAgain }) { return now() >= askAgain }
        if fetchedAt <= expiry.load(ordering: .relaxed) { return true }
        let age = wallClock() - fetchedAt
        // A clock that was set back makes nothing fresh. An age of 0 means "at each look", and looks come in crowds.
        return age < 0 || .seconds(age) >= max(longestAge, .seconds(1))
    }

    /// All listings are too old from here on.
    func expireAll() { expiry.store(wallClock(), ordering: .relaxed) }

    /// Settles one refresh of a directory that has entries; see `ListingDoubt.settle`.
    /// - Parameters:
    ///   - canGo: false for the source itself, as no parent's listing shows that it is gone.
    ///   - isListed: whether the tree has the directory.
    func settle(
        _ place: SourcePlace, _ trouble: ListingTrouble?, canGo: Bool = true, isListed: Bool = true
    ) -> ListingDoubt.Verdict {
        let moment = now()
        let apart = max(refresh, Self.pause)
        return conditions.withLock { conditions in
            var doubt = conditions[place.key]?.doubt
            var verdict = ListingDoubt.settle(&doubt, trouble, apart: apart, now: moment, date: wallClock())
            // An error does not bring a directory back.
            if verdict == .keep, conditions[place.key]?.isGone == true { verdict = .gone }
            if verdict == .gone, !canGo { verdict = .keep }
            conditions[place.key] = doubt.map {
                let isSecondLook = $0.isWaitingForConfirmation && verdict == .keep
                let pause = isSecondLook ? apart : min(max(refresh, .seconds(1)), Self.pause)
                return Condition(
                    doubt: $0, isGone: verdict == .gone, isListed: isListed, origin: place.url?.origin,
                    askAgain: moment + pause)
            }
            return verdict
        }
    }

    /// Forgets directories that the tree had, and all below them. - Parameter keys: asked for only where any directory
    ///   is marked.
    func forget(_ keys: () -> Set<String>) {
        // Compared outside of the lock, which each look at a directory takes.
        let marked = conditions.withLock { Array($0.keys) }
        if marked.isEmpty { return }
        let hashes = Set(keys().map { $0.utf8.reduce(into: Hasher()) { $0.combine($1) }.finalize() })
        if hashes.isEmpty { return }
        let gone = marked.filter { $0.hasBeginning(of: hashes) }
        conditions.withLock { conditions in
            for key in gone { conditions[key] = nil }
        }
    }

    /// An origin is back: what was marked only because of its absence is so no longer.
    func isBack(_ origin: String) {
        conditions.withLock { conditions in
            conditions = conditions.filter { _, condition in
                condition.origin != origin || condition.isGone
                    || ![.unreachable, .timedOut].contains(condition.doubt.trouble)
            }
        }
    }

    /// Whether a directory is taken as gone.
    func isGone(_ place: SourcePlace) -> Bool { conditions.withLock { $0[place.key]?.isGone ?? false } }

    /// `status-503`: the latest trouble, nil if there is none.
    func trouble(of place: SourcePlace) -> String? {
        conditions.withLock { $0[place.key]?.doubt }.map { $0.trouble.name }
    }

    /// `status-503 2026-11-21T10:00:00Z`: the latest trouble, and since when there is some, nil if there is none.
    func mark(of place: SourcePlace) -> String? {
        conditions.withLock { $0[place.key]?.doubt }.map { "\($0.trouble.name) \(dateText($0.since))" }
    }

    /// No directory of the tree is marked.
    var isWell: Bool { conditions.withLock { $0.values.allSatisfy { !$0.isListed } } }

    /// The directories of the tree that are marked, by key, each with its latest trouble and since when (seconds since
    /// 1970).
    var marked: [(key: String, trouble: String, since: Int64)] {
        conditions.withLock { $0.filter { $1.isListed }.map { ($0, $1.doubt.trouble.name, $1.doubt.since) } }
            .sorted { $0.key < $1.key }
    }
}

extension String {
    /// Whether it is the key of a folder with one of these hashes, or of a place in it, with or without the slash: each
    /// beginning takes one byte more than the last. Two keys of one hash would only have a folder listed once more.
    fileprivate func hasBeginning(of hashes: Set<Int>) -> Bool {
        var hasher = Hasher()
        for byte in utf8 {
            if byte == 0x2F, hashes.contains(hasher.finalize()) { return true }
            hasher.combine(byte)
            if byte == 0x2F, hashes.contains(hasher.finalize()) { return true }
        }
        return hashes.contains(hasher.finalize())
    }
}

/// A date as RFC 3339 writes it, in UTC. - Parameter seconds: since 1970.
func dateText(_ seconds: Int64) -> String {
    var (moment, parts) = (time_t(seconds), tm())
    gmtime_r(&moment, &parts)
    var text = [CChar](repeating: 0, count: 32)
    let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
    return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
