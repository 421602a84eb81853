import Glibc
import ReelCore

/// A film of HLS: a file whose bytes lie in several resources, one behind another.
package struct RandomFilm: Sendable {
    /// One playlist that the film had, and what the segments that it names have had since.
    struct Playlist: Sendable {
        var segments: [RandomOrigin.File]
        /// nil if the segments' bytes are those of the film.
        var cipher: SegmentCipher?
        /// The versions of each segment as they are enciphered; empty without a cipher.
        var enciphered: [[SegmentCipher.Made]]
        /// The versions that the segments had at one time, the newest last.
        var moments: [[Int]]

        /// Bytes of the film that a version of a segment has.
        func length(_ version: Int, of segment: Int) -> Int64 {
            cipher == nil ? segments[segment].versions[version].length : enciphered[segment][version].length
        }

        /// Whether bytes are those of a version of a segment from an offset in it on.
        func has(_ bytes: UnsafeRawBufferPointer, at offset: Int64, _ version: Int, of segment: Int) -> Bool {
            if cipher == nil {
                return segments[segment].versions[version].bytes.firstDifference(in: bytes, from: offset) == nil
            }
            return enciphered[segment][version].plain.withUnsafeBytes { plain in
                memcmp(plain.baseAddress! + Int(offset), bytes.baseAddress!, bytes.count) == 0
            }
        }
    }

    /// The newest last. Of the others the origin has no segments any more.
    var playlists: [Playlist] = []

    /// Bytes of the film as it is now.
    var length: Int64 {
        guard let last = playlists.last else { return 0 }
        return last.segments.indices.map { last.length(last.segments[$0].versions.count - 1, of: $0) }.reduce(0, +)
    }

    /// - Parameter signature: a query behind the URLs of segments.
    func text(_ signature: String) -> [ServerStep] { Self.answer(lines(signature)) }

    private func lines(_ signature: String) -> [String] {
        let segments = playlists.last?.segments ?? []
        let named = segments.flatMap { ["#EXTINF:2,", $0.path + signature] }
        let cipher = playlists.last?.cipher.map { [$0.line(signature)] } ?? []
        return ["#EXTM3U", "#EXT-X-TARGETDURATION:2"] + cipher + named + ["#EXT-X-ENDLIST"]
    }

    /// It is live, has a discontinuity, or is none.
    func wrongText(_ signature: String, _ random: inout SeededGenerator) -> [ServerStep] {
        let lines = lines(signature)
        return switch Int.random(in: 0..<4, using: &random) {
        case 0: Self.answer(lines.dropLast())
        case 1: Self.answer(lines.prefix(4) + ["#EXT-X-DISCONTINUITY"] + lines.dropFirst(4))
        case 2: Self.answer(["#EXTM3U"])
        default: Self.answer(lines.flatMap { ["# a remark", $0, ""] })
        }
    }

    static func answer(_ lines: some Sequence<String>) -> [ServerStep] {
        let text = lines.map { $0 + "\n" }.joined()
        return ServerStep.answer(200, [("Content-Type", "application/vnd.apple.mpegurl")], body: text)
    }
}

/// What one handle of a film has given. A handle has one playlist, and one version of each segment: those whose bytes
/// it has given were there at one time. Where a segment begins follows from the lengths of those before it, of which
/// the program may have been told at other times.
struct RandomFilmRead {
    private struct Candidate {
        let playlist: Int
        let lengths: [Int64]
        /// The versions that the bytes can be of, by the segments that were read.
        var versions: [Int: [Int]] = [:]
    }

    private struct Place: Hashable {
        var playlist: Int
        var segment: Int
        var version: Int
        var start: Int64
    }

    /// nil until bytes have come.
    private var candidates: [Candidate]?

    /// - Returns: whether the bytes can be of the same film as those before.
    mutating func take(_ bytes: ArraySlice<UInt8>, at offset: Int64, of film: RandomFilm) -> Bool {
        var known: [Place: Bool] = [:]
        let possible = candidates ?? Self.all(of: film)
        let fitting = possible.compactMap { candidate in
            bytes.withUnsafeBytes { Self.narrowed(candidate, $0, at: offset, film, &known) }
        }
        if !fitting.isEmpty { candidates = fitting }
        return !fitting.isEmpty
    }

    /// The playlists, versions of segments and places of segments that are possible so far.
    var description: String {
        (candidates ?? []).map { "playlist \($0.playlist), versions \($0.versions), lengths \($0.lengths)" }.joined(
            separator: "; ")
    }

    /// Which segments bytes are of, wherever these begin. - Parameter offset: of the bytes in the film.
    static func places(of bytes: ArraySlice<UInt8>, at offset: Int64, in film: RandomFilm) -> String {
        var places: [String] = []
        for candidate in all(of: film) {
            var start: Int64 = 0
            for (number, length) in candidate.lengths.enumerated() {
                defer { start += length }
                let count = min(Int64(bytes.count), start + length - offset, 4096)
                guard start <= offset, count > 0 else { continue }
                let playlist = film.playlists[candidate.playlist]
                for version in playlist.segments[number].versions.indices
                where playlist.length(version, of: number) == length {
                    let isOf = bytes.prefix(Int(count)).withUnsafeBytes {
                        playlist.has($0, at: offset - start, version, of: number)
                    }
                    if isOf {
                        places.append("playlist \(candidate.playlist), segment \(number), version \(version)")
                    }
                }
            }
        }
        return Set(places).sorted().joined(separator: "; ")
    }

    /// A segment that is replaced under its name is only found to be another one when it is asked for.
    func isNewest(of film: RandomFilm) -> Bool {
        candidates.map { $0.contains { $0.playlist == film.playlists.count - 1 } } ?? (film.length == 0)
    }

    private static func all(of film: RandomFilm) -> [Candidate] {
        film.playlists.enumerated().flatMap { number, playlist -> [Candidate] in
            var all: [[Int64]] = [[]]
            for (segment, file) in playlist.segments.enumerated() {
                let lengths = Set(file.versions.indices.map { playlist.length($0, of: segment) }).sorted()
                all = all.flatMap { before in lengths.map { before + [$0] } }
            }
            return all.map { Candidate(playlist: number, lengths: $0) }
        }
    }

    private static func narrowed(
        _ candidate: Candidate, _ bytes: UnsafeRawBufferPointer, at offset: Int64, _ film: RandomFilm,
        _ known: inout [Place: Bool]
    ) -> Candidate? {
        var candidate = candidate
        let playlist = film.playlists[candidate.playlist]
        let end = offset + Int64(bytes.count)
        var start: Int64 = 0
        for (number, length) in candidate.lengths.enumerated() {
            defer { start += length }
            let part = ByteRange(max(start, offset), max(start, offset, min(start + length, end)))
            if part.isEmpty { continue }
            let read = UnsafeRawBufferPointer(rebasing: bytes[Int(part.lower - offset)..<Int(part.upper - offset)])
            let all = Array(playlist.segments[number].versions.indices)
            let fitting = (candidate.versions[number] ?? all).filter { version in
                guard playlist.length(version, of: number) == length else { return false }
                let place = Place(playlist: candidate.playlist, segment: number, version: version, start: start)
                let fits = known[place] ?? playlist.has(read, at: part.lower - start, version, of: number)
                known[place] = fits
                return fits
            }
            if fitting.isEmpty { return nil }
            candidate.versions[number] = fitting
        }
        let isWithin = end <= start
        let wasThere = playlist.moments.contains { moment in
            candidate.versions.allSatisfy { number, versions in versions.contains(moment[number]) }
        }
        return isWithin && wasThere ? candidate : nil
    }
}
