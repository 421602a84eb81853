import ReelCore
import ReelThreads
import Synchronization

/// What the file's first bytes tell of its layout, looked at as they come: no request is made for them.
final class FileLayout: Sendable {
    private struct State {
        var container: Container?
        /// First bytes that were looked at.
        var looked: Int64 = 0
        var isOver = false
        var seconds: Double?
    }

    private let state = Mutex(State())

    /// nil where it is not known, or the file is none of the kinds that are.
    var container: Container? { state.withLock { $0.container } }
    /// The playing time, once it is known.
    var seconds: Double? {
        get { state.withLock { $0.seconds } }
        set { state.withLock { $0.seconds = newValue } }
    }
    var isOver: Bool { state.withLock { $0.isOver } }

    /// - Parameters:
    ///   - count: first bytes that are there.
    ///   - limit: of those that are looked at.
    /// - Returns: whether they are worth a look: twice as many as at the last one, or all.
    func wants(_ count: Int64, of limit: Int64) -> Bool {
        state.withLock { state in
            guard !state.isOver, count > state.looked, count >= 2 * state.looked || count == limit else { return false }
            state.looked = count
            return true
        }
    }

    /// - Returns: the container, once.
    func take(_ reading: Container.Reading) -> Container? {
        state.withLock { state in
            guard !state.isOver, reading != .needsMore else { return nil }
            state.isOver = true
            if case .found(let container) = reading {
                state.container = container
                state.seconds = container.seconds
            }
            return state.container
        }
    }
}

extension RemoteFile {
    /// Looks at the first bytes, as far as they are there, until they have told the layout; then fetches what a program
    /// reads next.
    func lookAtHead() {
        guard !layout.isOver, !isOpenEnded else { return }
        let limit = min(Container.mostHead, length)
        let count = object.present.firstMissing(from: 0, limit: limit)
        guard layout.wants(count, of: limit), let head = bytes(ByteRange(0, count)),
            let container = layout.take(Container.reading(head, length: length))
        else { return }
        state.withLock { $0.ledger.learn(container) }
        services.tails.judge(url.fileExtension, container, length)
        fetchIndex(container.opening)
    }

    /// The place of a file's index was told. FTP takes another login for a second place of a file.
    private func fetchIndex(_ ranges: [ByteRange]) {
        if url.fileProtocol != .ftp, !ranges.isEmpty { prefetch(ranges, as: .index) }
    }

    /// A reader that has read on may seek.
    func fetchSeekIndex() { fetchIndex(state.withLock { $0.ledger.takeSeekIndex() }) }

    /// The playing time, where bytes that are there tell it; nil where they do not.
    var seconds: Double? {
        if let seconds = layout.seconds { return seconds }
        layout.seconds = layout.container.flatMap { secondsBehind($0) }
        return layout.seconds
    }

    private func secondsBehind(_ container: Container) -> Double? {
        // An index behind the media data tells it.
        for range in container.opening {
            let part = range.clamped(to: ByteRange(range.lower, range.lower + Container.mostHead))
            if let index = bytes(part),
                case .found(let found) = Container.reading(index, length: length - part.lower),
                let seconds = found.seconds
            {
                return seconds
            }
        }
        return nil
    }

    /// Bytes that are there; nil where some are missing, or damaged.
    private func bytes(_ range: ByteRange) -> [UInt8]? {
        guard !range.isEmpty else { return nil }
        var isThere = false
        let bytes = [UInt8](unsafeUninitializedCapacity: Int(range.count)) { buffer, filled in
            guard case .bytes(let count) = object.read(into: UnsafeMutableRawBufferPointer(buffer), at: range.lower)
            else { return }
            (filled, isThere) = (count, true)
        }
        return isThere ? bytes : nil
    }
}

/// Learns for which names the end of a file is worth asking for before its first bytes have told where programs look:
/// the films of a library come from one program as a rule.
final class TailGuess: Sendable {
    /// So many files in a row need no end before it is not asked for any more.
    private static let patience = 3
    /// Hostile listings have any number of suffixes.
    private static let mostNames = 64

    /// Files in a row whose end was not needed, by the suffix of their names.
    private let vain = Mutex<[String: Int]>([:])

    func isWorth(_ suffix: String) -> Bool { vain.withLock { $0[suffix] ?? 0 } < Self.patience }

    func judge(_ suffix: String, _ container: Container, _ length: Int64) {
        guard let tail = Readahead.tail(of: length) else { return }
        let isNeeded = container.opening.contains { $0.overlaps(tail) }
        vain.withLock { vain in
            if isNeeded {
                vain[suffix] = nil
            } else if vain[suffix] != nil || vain.count < Self.mostNames {
                vain[suffix, default: 0] += 1
            }
        }
    }
}
