/// What the first bytes of a media file say of the rest: where a program looks next, and how long the file plays.
///
/// The bytes are anybody's. All that they can cause is that these ranges are fetched, which lie in the file, are few,
/// and are short.
package struct Container: Hashable, Sendable {
    /// The most ranges for one file.
    package static let mostRanges = 4
    /// The most bytes for one file, all together: the index of an mp4 of three hours.
    package static let mostBytes: Int64 = 8 << 20
    /// These first bytes hold all that is looked for; in all but odd files the first thousand do.
    package static let mostHead: Int64 = 64 << 10

    /// Ranges that a program reads before it knows what the file holds, by place; some of them are there already.
    package private(set) var opening: [ByteRange] = []
    /// Ranges that it reads at its first seek.
    package private(set) var seeking: [ByteRange] = []
    /// The end of the index at the front of the file: tags, pictures, tables. What lies before it is no playing.
    package private(set) var front: Int64
    /// The playing time; nil if these bytes do not give it.
    package private(set) var seconds: Double?

    /// The layout of a container as its reader found it; nothing of it is trusted yet.
    struct Layout {
        var opening: [ByteRange] = []
        var seeking: [ByteRange] = []
        var front: Int64 = 0
        var seconds: Double?
    }

    /// What some bytes say.
    package enum Reading: Hashable, Sendable {
        case found(Container)
        /// More of the first bytes are needed.
        case needsMore
        /// None of the containers that are known here.
        case unknown
    }

    /// Reads a file's first bytes.
    /// - Parameters:
    ///   - head: from the first byte on; more than `mostHead` are not looked at.
    ///   - length: of the file.
    package static func reading(_ head: [UInt8], length: Int64) -> Reading {
        // No sum of two offsets overflows.
        guard length > 0, length < BlockSize.openEnd else { return .unknown }
        let head = FileBytes(Array(head.prefix(Int(min(mostHead, length)))), length: length)
        let readers: [(FileBytes) -> Answer] = [mp4, matroska, taggedAudio, flac, avi]
        for read in readers {
            switch read(head) {
            case .found(let layout): return .found(Container(layout, length: length))
            case .needsMore: return head.count < min(mostHead, length) ? .needsMore : .unknown
            case .foreign: continue
            }
        }
        return head.count < 12 && head.count < length ? .needsMore : .unknown
    }

    private init(_ layout: Layout, length: Int64) {
        var left = Self.mostBytes
        opening = Self.capped(layout.opening, length, &left)
        seeking = Self.capped(layout.seeking, length, &left)
        front = min(max(0, layout.front), length)
        seconds = layout.seconds.flatMap { $0.isFinite && $0 > 0 && $0 < 1e7 ? $0 : nil }
    }

    /// Parts of the file, few and together no longer than `left`, from which they are taken.
    private static func capped(_ ranges: [ByteRange], _ length: Int64, _ left: inout Int64) -> [ByteRange] {
        var union = ByteRangeSet()
        for range in ranges.prefix(4 * mostRanges) {
            let range = range.clamped(to: ByteRange(0, length))
            if !range.isEmpty { union.insert(range) }
        }
        var capped: [ByteRange] = []
        for range in union.ranges.prefix(mostRanges) where left > 0 {
            capped.append(ByteRange(range.lower, range.lower + min(range.count, left)))
            left -= capped.last!.count
        }
        return capped
    }

    /// What the reader of one kind of container says.
    enum Answer {
        case found(Layout)
        case needsMore
        /// Another kind of file.
        case foreign
    }
}

/// The first bytes of a file, read with distrust: past their end there is nothing, and no number traps.
struct FileBytes {
    private let bytes: [UInt8]
    /// The file's length.
    let length: Int64
    /// Bytes that are at hand.
    var count: Int64 { Int64(bytes.count) }

    init(_ bytes: [UInt8], length: Int64) {
        self.bytes = bytes
        self.length = length
    }

    subscript(_ offset: Int64) -> UInt8? { offset >= 0 && offset < count ? bytes[Int(offset)] : nil }

    /// A number of `width` bytes, at most 8, the first one highest; the largest where it has no room. nil past the end.
    func big(_ offset: Int64, _ width: Int64) -> Int64? {
        guard offset >= 0, offset <= count - width else { return nil }
        return Int64(clamping: (0..<width).reduce(UInt64(0)) { $0 << 8 | UInt64(bytes[Int(offset + $1)]) })
    }

    /// The same, the last one highest.
    func little(_ offset: Int64, _ width: Int64) -> Int64? {
        guard offset >= 0, offset <= count - width else { return nil }
        return Int64(clamping: (0..<width).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64(bytes[Int(offset + $1)]) })
    }

    /// Whether these bytes stand there.
    func has(_ text: StaticString, at offset: Int64) -> Bool {
        guard offset >= 0, offset <= count - Int64(text.utf8CodeUnitCount) else { return false }
        return text.withUTF8Buffer { $0.elementsEqual(bytes[Int(offset)..<Int(offset) + $0.count]) }
    }

    /// One behind what begins at `offset` and has `count` bytes; the end of the file at most.
    func end(_ offset: Int64, _ count: Int64) -> Int64 {
        let offset = min(max(0, offset), length)
        return offset + min(max(0, count), length - offset)
    }

    /// The end of what a program reads in a row with an index in front: the first samples come behind it. A kernel that
    /// has seen a long one read reads further ahead; what a short one makes it ask for may be there already.
    func samples(behind front: Int64) -> Int64 {
        end(front, front > Readahead.firstOfMedia ? 3 * BlockSize.block : 0)
    }

    /// The bytes from `offset` to the end of the file where these are few, else the first block of them.
    func rest(from offset: Int64) -> ByteRange {
        ByteRange(offset, length - offset <= Container.mostBytes ? length : end(offset, BlockSize.block))
    }
}
