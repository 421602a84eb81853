import ReelThreads

/// Bounds how often a client may try a wrong login.
///
/// The first wrong one of a client begins a minute. Once there were ten, no login of that client is looked at until the
/// minute is over. Clients that find no room in the table share one row, so that in all there is a bound as well.
package final class WrongLogins: Sendable {
    package static let limit = 10
    package static let period = Duration.seconds(60)
    package static let mostClients = 1024

    private struct Row {
        var count = 0
        let end: Duration
    }

    /// By client, nil for those without a row of their own.
    private let rows = Monitor([ClientPlace?: Row]())

    package init() {}

    /// The time until a client may try again, nil if it may now. - Parameter now: as ``ReelThreads/now()`` gives it.
    package func wait(_ client: ClientPlace, at now: Duration) -> Duration? {
        rows.withLock { rows in
            guard let row = rows[Self.key(client, rows)], row.count >= Self.limit, row.end > now else { return nil }
            return row.end - now
        }
    }

    /// Counts a wrong login.
    package func add(_ client: ClientPlace, at now: Duration) {
        rows.withLock { rows in
            if rows.count >= Self.mostClients { rows = rows.filter { $0.value.end > now } }
            let key = Self.key(client, rows)
            var row = rows[key] ?? Row(end: now + Self.period)
            if row.end <= now { row = Row(end: now + Self.period) }
            row.count += 1
            rows[key] = row
        }
    }

    private static func key(_ client: ClientPlace, _ rows: [ClientPlace?: Row]) -> ClientPlace? {
        rows[client] != nil || rows.count < mostClients ? client : nil
    }
}
