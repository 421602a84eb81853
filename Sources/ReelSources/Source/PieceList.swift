import ReelCore

/// The resources whose bytes, one behind another, are one file.
package struct PieceList: Sendable {
    /// One of them, or a part of one.
    package struct Piece: Hashable, Sendable {
        /// Without a signature in its query.
        package let url: ResourceURL
        /// nil for all of the resource.
        package let range: ByteRange?
        /// nil if its bytes are those of the file.
        package let cipher: Cipher?

        /// Both as one piece, where the other one lies right behind this one in the same resource.
        package func joined(with next: Piece) -> Piece? {
            guard cipher == nil, next.cipher == nil, url == next.url, let range, let more = next.range,
                range.upper == more.lower
            else { return nil }
            return Piece(url: url, range: ByteRange(range.lower, more.upper), cipher: nil)
        }

        /// What lies behind the end of an earlier piece that this one goes on from; it may begin later than that.
        /// - Returns: empty if nothing, nil where it does not go on from that.
        fileprivate func rest(after earlier: Piece) -> [Piece]? {
            if self == earlier { return [] }
            guard cipher == nil, earlier.cipher == nil, url == earlier.url, let range, let old = earlier.range,
                (old.lower...old.upper).contains(range.lower), range.upper >= old.upper
            else { return nil }
            if range.upper == old.upper { return [] }
            return [Piece(url: url, range: ByteRange(old.upper, range.upper), cipher: nil)]
        }
    }

    /// AES-128 in CBC mode, padded as in PKCS #7 (RFC 8216, section 4.3.2.4).
    package struct Cipher: Hashable, Sendable {
        /// Where the key is, 16 bytes; without a signature in its query.
        package let key: ResourceURL
        package let initialVector: InitialVector
    }

    /// 128 bits.
    package struct InitialVector: Hashable, Sendable {
        package let high: UInt64
        package let low: UInt64

        /// 16 of them.
        package var bytes: [UInt8] {
            [high, low].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (56 - 8 * $0)) } }
        }
    }

    package let pieces: [Piece]
    /// `video/mp2t`
    package let mediaType: String
    /// More pieces are to come, and the first ones may go.
    package let isGrowing: Bool

    package init(_ pieces: [Piece], mediaType: String, isGrowing: Bool = false) {
        (self.pieces, self.mediaType, self.isGrowing) = (pieces, mediaType, isGrowing)
    }

    /// The pieces that follow those of an earlier list, of which this one has the last in the same order.
    /// - Parameter earlier: without two that `joined(with:)` makes one.
    /// - Returns: nil where it does not go on from there.
    package func rest(after earlier: [Piece]) -> [Piece]? {
        guard let last = earlier.last, let place = pieces.lastIndex(where: { $0.rest(after: last) != nil }) else {
            return nil
        }
        for (new, old) in zip(pieces[..<place].reversed(), earlier.dropLast().reversed())
        // Each list begins with the initialisation.
        where new.rest(after: old) != [] && new != earlier.first { return nil }
        return (pieces[place].rest(after: last) ?? []) + pieces[(place + 1)...]
    }
}

/// A file that is no resource of its own: a document lists the resources that hold its bytes.
package struct JoinedFile: Sendable {
    /// Where the document is, without a signature in its query.
    package let playlist: SourcePlace
    private let parse: @Sendable (SourceAnswer, @escaping StopQuestion) throws(SourceRefusal) -> PieceList

    init(
        _ playlist: SourcePlace,
        parse: @escaping @Sendable (SourceAnswer, @escaping StopQuestion) throws(SourceRefusal) -> PieceList
    ) {
        self.playlist = playlist
        self.parse = parse
    }

    /// What the document lists now. - Throws: `.useless` if that is no file any more.
    package func pieces(
        _ answer: SourceAnswer, _ isOver: @escaping StopQuestion
    ) throws(SourceRefusal) -> PieceList {
        try parse(answer, isOver)
    }
}
