import Glibc
import ReelCore
import ReelThreads
import ReelVolume

/// What a shared cache answers for one file, beside the source.
struct SharedCacheFacts {
    /// One piece of the file: the head of its answer, its bytes, and the time until all of them had come.
    struct Piece {
        var head: ResponseHead
        var bytes: [UInt8]
        var time: Duration
    }

    typealias Answer = Result<Piece, OriginFailure>

    /// The URL of the file at the cache. Only scheme, host and port of it are shown.
    var url: ResourceURL
    var isGivenCredentials = false
    var first: Answer
    /// For the same bytes, nil if it was not asked again.
    var second: Answer?
    /// For bytes elsewhere in the file, nil if it has no other piece.
    var other: Answer?
    /// The bytes of the first, from the source.
    var source: Answer?
}

extension DoctorProbe {
    /// A piece asks for no more of a large alignment.
    private static let mostOfPiece: Int64 = 4 << 20
    /// Some caches have an answer a moment after they gave it, on a busy machine a second or two.
    private static let mostRepeats = 12
    /// Microseconds.
    private static let pause: useconds_t = 250_000

    /// Asks a shared cache for one piece of a file twice, for another one, and the source for the first.
    /// - Parameters:
    ///   - url: of the file at the source.
    ///   - place: of the file at the cache.
    ///   - length: of the file.
    func examine(
        _ cache: SharedCache, _ place: ResourceURL, _ url: ResourceURL, _ length: Int64, alignment: Int64
    ) -> SharedCacheFacts {
        let pieces = max(1, length / alignment)
        // Another piece each time, as one that the last look has left there shows little.
        let number = Int64.random(in: 0..<pieces)
        func range(_ number: Int64) -> ByteRange {
            let lower = number * alignment
            return ByteRange(lower, min(length, lower + min(alignment, Self.mostOfPiece)))
        }
        let signed = source?.request(OriginRequest(url: url)) ?? OriginRequest(url: url)
        func ask(_ range: ByteRange) -> OriginRequest {
            var request = OriginRequest(url: place, range: range)
            request.headers = cache.headers(for: signed)
            return request
        }
        let asked = range(number)
        var facts = SharedCacheFacts(url: place, first: piece(ask(asked)))
        facts.isGivenCredentials = cache.getsCredentials
        guard case .success(let piece) = facts.first, piece.head.status == 206 else { return facts }
        for repeats in 0..<Self.mostRepeats {
            if repeats > 0 { usleep(Self.pause) }
            facts.second = self.piece(ask(asked))
            if (try? facts.second?.get())?.head.isHit != false { break }
        }
        if pieces > 1 { facts.other = self.piece(ask(range((number + pieces / 2) % pieces))) }
        facts.source = self.piece(OriginRequest(url: url, range: asked))
        return facts
    }

    /// What comes in answer to a range; of a whole body no more than a piece.
    private func piece(_ request: OriginRequest) -> SharedCacheFacts.Answer {
        let begin = now()
        let count = request.range?.count ?? 0
        // A piece ends by itself: a cache may drop what its client breaks off, be it after the last byte.
        return start(of: request, most: count + 1).map { head, bytes in
            SharedCacheFacts.Piece(head: head, bytes: Array(bytes.prefix(Int(count))), time: now() - begin)
        }
    }
}

extension Diagnosis {
    private static let recipe = "Set it up as nginx-cache.example does, among the examples of reelfs."

    /// Judges a shared cache: whether it keeps ranges, distinguishes versions, and is faster than the source.
    mutating func add(_ cache: SharedCacheFacts, of information: ContentInformation) {
        let name = "the shared cache \(cache.url.origin)"
        // Of a folder's URL no cache has a range.
        if cache.url.path.hasSuffix("/"), (try? cache.first.get())?.head.status != 206 {
            return bad(
                "\(name) is given as a folder, and the source is a file", "Write the URL of that file after --via.")
        }
        let first: SharedCacheFacts.Piece
        switch cache.first {
        case .success(let piece): first = piece
        case .failure(.status(let status, _)) where [401, 403].contains(status):
            return bad(
                "\(name) answers \(status), so that mounts ask the source",
                cache.isGivenCredentials
                    ? "Let it hand Authorization and Reelfs-Signature on to the source."
                    : "Give it access to the source, or use --via-credentials.")
        case .failure(let failure):
            return bad("\(name): \(failure.reason), so that mounts ask the source", "Check the URL of --via.")
        }
        guard first.head.status == 206 else {
            return bad("\(name) answers a range with the whole file, so that mounts ask the source", Self.recipe)
        }
        addVersion(name, cache, first, information)
        addKeeping(name, cache, first)
        guard case .success(let second)? = cache.second, case .success(let source)? = cache.source else { return }
        ok(
            "\(humanSize(Int64(second.bytes.count))) come from \(cache.url.origin) in \(shortTime(second.time)), "
                + "from the source in \(shortTime(source.time))")
    }

    private mutating func addVersion(
        _ name: String, _ cache: SharedCacheFacts, _ first: SharedCacheFacts.Piece, _ information: ContentInformation
    ) {
        let told = ContentInformation(length: first.head.contentRange?.total, validator: first.head.validator)
        guard told.isSameVersion(as: information) else {
            return bad(
                "\(name) has another version of the file, so that mounts ask the source",
                "Remove the file there, or let it keep files for a shorter time.")
        }
        if case .success(let source)? = cache.source, source.bytes != first.bytes {
            return bad("\(name) has other bytes than the source", "Remove the file there, and find out why.")
        }
        if told.validator.entityTag == nil, told.validator.lastModified == nil {
            return note("\(name) tells no version: it could mix two of the same length", "Let it pass ETag on.")
        }
        ok("\(name) tells versions apart, as the source does")
    }

    private mutating func addKeeping(_ name: String, _ cache: SharedCacheFacts, _ first: SharedCacheFacts.Piece) {
        switch cache.second {
        case .failure(let failure)?: bad("\(name) answers once, and then: \(failure.reason)", "Try again.")
        case .success(let second)? where second.bytes != first.bytes:
            bad("\(name) gives other bytes for the same range", "Remove the file there, and find out why.")
        case .success(let second)?:
            switch second.head.isHit {
            case true? where first.head.isHit == false && (try? cache.other?.get())?.head.isHit == true:
                note(
                    "\(name) keeps whole files: the first look into a film makes it fetch all of it", Self.recipe)
            case true?: ok("\(name) keeps ranges: it had the second answer")
            case false?:
                bad("\(name) keeps no ranges: it asked the source again for the same one", Self.recipe)
            case nil:
                note("\(name) does not say whether it keeps ranges: no Age, no X-Cache", "Let it send X-Cache.")
            }
        case nil: break
        }
    }
}
