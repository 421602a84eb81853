import ReelCore
import ReelThreads

/// What the file's first bytes say of its layout. They are read as they come: no request is made for them.
struct FileLayout {
    /// nil if it is not known, or of no known kind.
    private(set) var container: Container?
    /// First bytes that were looked at.
    private var looked: Int64 = 0
    private(set) var isOver = false
    /// The playing time, once it is known.
    private(set) var seconds: Double?
    /// It was looked for in an index behind the media data.
    private var hasSought = false

    /// - Parameters:
    ///   - count: first bytes that are there.
    ///   - limit: of those that are looked at.
    /// - Returns: true if the prefix should be parsed again: it has doubled since the last attempt, or is complete.
    mutating func wants(_ count: Int64, of limit: Int64) -> Bool {
        guard !isOver, count > looked, count >= 2 * looked || count == limit else { return false }
        looked = count
        return true
    }

    /// - Returns: the container, once.
    mutating func take(_ reading: Container.Reading) -> Container? {
        guard !isOver, reading != .needsMore else { return nil }
        isOver = true
        if case .found(let found) = reading {
            container = found
            seconds = found.seconds
        }
        return container
    }

    /// - Returns: the container, once, where it does not give the playing time.
    mutating func takeWithoutSeconds() -> Container? {
        guard seconds == nil, !hasSought, let container else { return nil }
        hasSought = true
        return container
    }

    mutating func learn(seconds: Double) { self.seconds = seconds }
}

extension RemoteFile {
    var layout: FileLayout { ask { $0.layout } }

    /// Looks at the first bytes that are there, until they show the layout; then fetches what a program reads next.
    func lookAtHead() {
        guard !layout.isOver, !isOpenEnded else { return }
        let limit = min(Container.mostHead, length)
        let count = object.present.firstMissing(from: 0, limit: limit)
        guard decide({ $0.layout.wants(count, of: limit) }), let head = bytes(ByteRange(0, count)) else { return }
        let reading = Container.reading(head, length: length)
        guard let container = decide({ $0.learn(reading) }) else { return }
        services.tails.judge(url.fileExtension, container, length)
        fetchIndex(container.opening)
    }

    /// Fetches a file's index; not by FTP, which takes another login for a second place of a file.
    private func fetchIndex(_ ranges: [ByteRange]) {
        if url.fileProtocol != .ftp, !ranges.isEmpty { prefetch(ranges, as: .index) }
    }

    /// A reader has had to wait, or was read ahead of. Once one has read on: fetches the index for seeking, and looks
    /// for the playing time, as who plays is known by the film's rate.
    func readsOn() {
        let (index, container) = decide { ($0.takeSeekIndex(), $0.takeWithoutSeconds()) }
        fetchIndex(index)
        if let container, let seconds = secondsBehind(container) { decide { $0.learn(seconds: seconds) } }
    }

    /// The playing time, nil if the bytes that are there do not give it.
    var seconds: Double? {
        let layout = layout
        if let seconds = layout.seconds { return seconds }
        guard let container = layout.container, let seconds = secondsBehind(container) else { return nil }
        decide { $0.learn(seconds: seconds) }
        return seconds
    }

    private func secondsBehind(_ container: Container) -> Double? {
        // An index behind the media data has it.
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

/// Learns for which names the end of a file is worth asking for before its first bytes show where programs look: the
/// films of a library come from one program as a rule.
final class TailGuess: Sendable {
    /// The end is no longer asked for after this many files in a row that did not need it.
    private static let patience = 3
    /// Hostile listings have any number of suffixes.
    private static let mostNames = 64

    /// Files in a row whose end was not needed, by the suffix of their names.
    private let vain = Lock<[String: Int]>([:])

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
