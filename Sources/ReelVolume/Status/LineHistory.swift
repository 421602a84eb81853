import ReelCore
import ReelThreads

/// What the line of a mount brought in each second of the last minutes, for a page that is opened later.
package final class LineHistory: Sendable {
    private struct Second {
        var end: Duration
        /// Bytes a second.
        var rate: Int64
        var needs: Int64
        /// The stalls that ended in it.
        var stalls: VolumeStatus.Stalls
    }

    private struct State {
        var last: (progress: LineProgress, moment: Duration)?
        var seconds: [Second] = []
        /// The place of the next one, once there are as many as are kept.
        var next = 0
    }

    /// Five minutes, as long as the page's time line.
    static let most = 300

    private let look: @Sendable () -> LineProgress
    private let state = Lock(State())

    /// - Parameter look: asked each second; waits for no disk.
    package init(_ look: @escaping @Sendable () -> LineProgress) { self.look = look }

    /// A second has passed.
    package func add(_ moment: Duration = now()) {
        let progress = look()
        state.withLock { state in
            defer { state.last = (progress, moment) }
            guard let last = state.last, moment > last.moment else { return }
            let (before, elapsed) = (last.progress, (moment - last.moment).seconds)
            // A source that leaves a catalogue takes its bytes along.
            let rate = Int64(min(Double(max(0, progress.bytes &- before.bytes)) / elapsed, 1e15))
            let second = Second(
                end: moment, rate: rate, needs: progress.needs, stalls: progress.stalls(since: before))
            if state.seconds.count < Self.most { return state.seconds.append(second) }
            state.seconds[state.next] = second
            state.next = (state.next + 1) % Self.most
        }
    }

    /// A member of a JSON object: the seconds that are known, the oldest first, each as `[milliseconds ago, bytes a
    /// second, bytes a second that players need, stalls by the origin, by the queue, by the disk]`.
    package func member(_ moment: Duration = now()) -> [UInt8] {
        let seconds = state.withLock { $0.seconds[$0.next...] + $0.seconds[..<$0.next] }
        let items = seconds.map { second in
            let ago = max(0, Int64((moment - second.end) / .milliseconds(1)))
            let stalls = second.stalls
            return "[\(ago),\(second.rate),\(second.needs),\(stalls.origin),\(stalls.queue),\(stalls.disk)]"
        }
        return Array("\"past\":[\(items.joined(separator: ","))]".utf8)
    }
}
