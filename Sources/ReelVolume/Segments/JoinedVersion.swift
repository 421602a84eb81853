import CCrypto
import ReelCore
import ReelSources

/// One version of a file that is joined of pieces: where each of its bytes is.
final class JoinedVersion: Sendable {
    /// A piece, and what its origin has answered about it.
    struct Part: Sendable {
        let piece: PieceList.Piece
        /// The information on the resource that the piece is, or lies in; nil for a range of one that grows, which has
        /// another version with each byte.
        let resource: ContentInformation?
        /// Bytes of the file that it holds, deciphered and without padding.
        let length: Int64
    }

    let parts: [Part]
    /// Where in the file each part begins.
    private let starts: [Int64]
    let information: ContentInformation
    /// More parts are to come (`--growing`).
    let isGrowing: Bool
    /// The tags of the versions that this one goes on from, the last one last.
    private let earlier: [EntityTag]

    /// A reader that is further behind opens the file again.
    private static let mostEarlier = 1000

    /// - Parameter before: the version that it goes on from, to whose parts these are added, nil if none.
    /// - Returns: nil where the parts are too many, or their lengths no sum that a file can have.
    init?(_ more: [Part], mediaType: String, isGrowing: Bool, after before: JoinedVersion? = nil) {
        var parts = before?.parts ?? []
        for part in more {
            // Whenever the list was looked at, one request asks for what lies in one resource.
            if let last = parts.last, last.resource == nil, part.resource == nil,
                let piece = last.piece.joined(with: part.piece)
            {
                parts[parts.count - 1] = Part(piece: piece, resource: nil, length: last.length + part.length)
            } else {
                parts.append(part)
            }
        }
        guard parts.count <= HLSPlaylist.mostPieces else { return nil }
        var (starts, length) = ([Int64](), Int64(0))
        starts.reserveCapacity(parts.count)
        for part in parts {
            starts.append(length)
            guard (0...BlockSize.longestFile).contains(part.length) else { return nil }
            length += part.length
            if length > BlockSize.longestFile { return nil }
        }
        self.parts = parts
        self.starts = starts
        self.isGrowing = isGrowing
        let tag = more.isEmpty ? nil : before?.information.validator.entityTag
        earlier = ((before?.earlier ?? []) + (tag.map { [$0] } ?? [])).suffix(Self.mostEarlier)
        let modified = parts.lazy.compactMap(\.resource?.validator.lastModified).max()
        guard let digest = Self.digest(parts) else { return nil }
        information = ContentInformation(
            length: length, validator: Validator(entityTag: EntityTag("\"hls-\(digest)\""), lastModified: modified),
            mediaType: before?.information.mediaType ?? mediaType)
    }

    /// Whether it has all of an earlier one, at the same places.
    func continues(_ information: ContentInformation) -> Bool {
        information.validator.entityTag.map { earlier.contains($0) } ?? false
    }

    /// The part that holds the byte at `offset`, which lies in the file, and where that part begins.
    func part(at offset: Int64) -> (part: Part, start: Int64) {
        var (low, high) = (0, starts.count)
        // The last that begins at or before it: empty ones begin where the next does.
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle } else { high = middle }
        }
        return (parts[low], starts[low])
    }

    /// Names the version: SHA-256 of all that says which bytes the parts hold, in hex; nil where the library fails.
    private static func digest(_ parts: [Part]) -> String? {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { return nil }
        for part in parts {
            let (piece, validator) = (part.piece, part.resource?.validator)
            let words: [String] = [
                piece.url.text, piece.range?.description ?? "", "\(part.length)", validator?.entityTag?.opaque ?? "",
                validator?.lastModified.map { "\($0)" } ?? "", piece.cipher.map { $0.key.text } ?? "",
                piece.cipher.map { "\($0.initialVector.high) \($0.initialVector.low)" } ?? "",
            ]
            // No word has a line end in it.
            var line = words.joined(separator: "\n") + "\n\n"
            guard line.withUTF8({ EVP_DigestUpdate(context, $0.baseAddress, $0.count) }) == 1 else { return nil }
        }
        var bytes = [UInt8](repeating: 0, count: 32)
        guard EVP_DigestFinal_ex(context, &bytes, nil) == 1 else { return nil }
        // Half of it is more than enough.
        return hexadecimal(bytes.prefix(16))
    }
}
