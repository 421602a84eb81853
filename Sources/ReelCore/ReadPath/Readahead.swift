/// The sizes that decide how far ahead of a reader to fetch: bytes, unless said otherwise.
///
/// All sizes follow from three: a block, `near` and `most`.
package enum Readahead {
    /// Waiting for a running stream that has this far to go is no worse than another request. Also the distance at
    /// which a reader goes on reading at its place (the kernel asks out of order, players skip bytes that they do not
    /// need), the window of a reader where all files together have used up their readahead, and the bytes that a player
    /// needs after a seek before it shows a picture.
    package static let near: Int64 = 1 << 20
    /// For readers that take bytes as fast as they come, or whose rate is unknown: on a fast link, six requests at a
    /// time follow one another without a gap.
    package static let most: Int64 = 32 << 20
    /// For readers with a rate of their own (players) that have read as much: half a minute of 30 Mbit/s.
    package static let longest = 4 * most
    /// A window is as long as a reader at the observed rate needs for this: longer than most disturbances of a line.
    static let seconds = 30.0
    /// A player that has less ahead gets the next bytes before later ones.
    static let shortSeconds: Int64 = 4
    /// Longer than a reader pauses between reads of a row: for so long after an underrun a reader counts as one that
    /// takes bytes as they come.
    static let underrunTime = Duration.seconds(1)

    // MARK: Until a reader has read on

    /// An open or a first read at a place asks for so much: one block, which answers the kernel's first request. Two
    /// hundred films of which the first 64 KiB are read cost 25 MiB.
    package static let first = BlockSize.block
    /// The same for a film or song, while few are opened: a player reads more than a block before its first picture,
    /// and a second request would cost it a round trip.
    package static let firstOfMedia = 2 * first
    /// From the very start of a file readers prove themselves sooner: most that read two blocks there go on.
    static let headProof = 2 * first
    /// Elsewhere nothing is fetched ahead before so much was read in a row: a program that takes a piece of 256 KiB out
    /// of the middle makes the kernel ask for 512.
    static let proof = 5 * first
    /// The kernel's own readahead at most, and the time within which its reads come.
    static let mostOfKernel = 4 * BlockSize.block
    static let batchTime = Duration.milliseconds(5)
    /// From here on a reader is expected to go on. Before, its window is `early`: one that stops at 4 MiB has cost less
    /// than 8.
    static let settled = 8 * proof
    static let early = settled / 2

    // MARK: Fast readers, slow connections

    /// Bytes a second that no line with a delay brings. Bytes fetched ahead of such a reader should still be in memory
    /// when it comes, and no round trip is worth more.
    static let fastest = 256.0 * 1024 * 1024
    static let mostOfFastest = most / 4
    /// After this many bytes the rate of a reader is known before a second has passed.
    static let telling = 2 * most
    /// No film has more bytes a second.
    static let fastestPlayer = 32.0 * 1024 * 1024
    /// The rate of a film whose rate is not known yet: 20 Mbit/s.
    static let usualRate = 2.5e6
    /// The pieces of parallel requests: longer ones make the reader wait for the first while the last comes, shorter
    /// ones are mostly round trips. Where a round trip costs more than usual, four times the bytes that it costs.
    static let segments = (near / 2)...(2 * near)
    static let longestSegment = 4 * segments.upperBound
    /// After a seek several requests fetch `near` together, the first of them short, as the reader waits for it.
    static let seekFirst = BlockSize.block
    static let seekNext = 3 * BlockSize.block

    /// Places remembered in one file: audio, video and subtitle positions of two or three programs.
    package static let cursorLimit = 8
    /// A last block shorter than this gets the one before it as well: an index of some hundred chapters, ID3v1 and APE
    /// tags fit.
    private static let leastTail = BlockSize.block / 4

    /// The end of a media file, which players ask for right after its beginning (index, cues, tags); nil where the file
    /// is so short that reading on brings it as soon.
    package static func tail(of length: Int64) -> ByteRange? {
        guard length > 4 * BlockSize.block else { return nil }
        var lower = (length - 1) / BlockSize.block * BlockSize.block
        if length - lower < leastTail { lower -= BlockSize.block }
        return ByteRange(lower, length)
    }
}
