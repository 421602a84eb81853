import ReelCore
import ReelHTTP
import ReelVolume
import Testing

@testable import reelfs

/// `--via`, `--align` and `--via-credentials`, and what `reelfs doctor` says of a shared cache.
@Suite struct SharedCacheOptionTests {
    private func options(_ given: [(String, String?)]) throws -> MountOptions {
        var options = MountOptions()
        for (name, value) in given { try options.apply(GivenOption(name, value)) }
        return options
    }

    @Test func requestsAreAlignedToAMebibyteWhereThereIsACache() throws {
        #expect(try options([]).alignment == BlockSize.block)
        #expect(try options([("via", "http://c/")]).alignment == 1 << 20)
        #expect(try options([("via", "http://c/"), ("align", "256K")]).alignment == 256 << 10)
        #expect(try options([("align", "64M")]).alignment == 64 << 20)
    }

    @Test(arguments: ["64K", "192K", "1", "0", "128M", "", "1MX", "-1M"])
    func anotherAlignmentIsRefused(value: String) {
        #expect(throws: Failure.self) { try options([("align", value)]) }
    }

    @Test(arguments: ["ftp://b/", "b/films", "/films", "https://me:pw@b/", "https://b/?token=1", ""])
    func anotherCacheIsRefused(value: String) {
        #expect(throws: Failure.self) { try options([("via", value)]) }
    }

    @Test(arguments: ["ftp://a/", "sftp://a/", "s3://bucket/films", "/dev/null"])
    func anotherSourceHasNoCache(source: String) throws {
        let options = try options([("via", "http://c/")])
        #expect {
            _ = try SourceConfiguration(source, options)
        } throws: { error in
            (error as? Failure)?.sentence.contains("a shared cache is for http and https") == true
        }
    }

    @Test func credentialsAreForTheCacheOnlyWhereTheUserSaysSo() throws {
        func trusted(_ given: [(String, String?)]) throws -> Set<String>? {
            try SourceConfiguration("https://a/", try options(given)).transport.trustedOrigins
        }
        #expect(try trusted([("via", "http://c/")]) == ["https://a"])
        #expect(try trusted([("via", "http://c/"), ("via-credentials", nil)]) == ["https://a", "http://c"])
        #expect(throws: Failure.self) { try trusted([("via-credentials", nil)]) }
    }

    private static let known = ContentInformation(
        length: 4 << 20, validator: Validator(entityTag: EntityTag("\"a\""), lastModified: nil))

    private func piece(
        _ mark: String?, _ status: Int = 206, tag: String? = "\"a\"", bytes: [UInt8] = [1]
    ) -> SharedCacheFacts.Answer {
        var headers = [("Content-Range", "bytes 0-0/\(4 << 20)")]
        if let tag { headers.append(("ETag", tag)) }
        if let mark { headers.append(("X-Cache", mark)) }
        let head = ResponseHead(
            status: status, headers: headers.map { (name: $0.0, value: $0.1) }, url: ResourceURL("http://c/film.mkv")!)
        return .success(SharedCacheFacts.Piece(head: head, bytes: bytes, time: .milliseconds(2)))
    }

    /// What the doctor says of four answers: the first, the same again, elsewhere, and from the source.
    private func said(
        _ first: SharedCacheFacts.Answer, _ second: SharedCacheFacts.Answer? = nil,
        _ other: SharedCacheFacts.Answer? = nil, isGivenCredentials: Bool = false, at url: String = "http://c/film.mkv"
    ) -> (text: String, isWell: Bool) {
        var facts = SharedCacheFacts(url: ResourceURL(url)!, first: first)
        (facts.second, facts.other, facts.source) = (second, other, piece(nil))
        facts.isGivenCredentials = isGivenCredentials
        var diagnosis = Diagnosis()
        diagnosis.add(facts, of: Self.known)
        return (diagnosis.text.replacing("\n      ", with: " "), diagnosis.isWell)
    }

    @Test func theDoctorSaysWhetherRangesAreKept() {
        let good = said(piece("MISS"), piece("HIT"), piece("MISS"))
        #expect(good.isWell && good.text.contains("keeps ranges") && good.text.contains("tells versions apart"))
        #expect(good.text.contains("in 2.0 ms, from the source in 2.0 ms"), "\(good.text)")
        #expect(said(piece("MISS"), piece("HIT"), piece("HIT")).text.contains("keeps whole files"))
        #expect(said(piece("HIT"), piece("HIT"), piece("HIT")).text.contains("keeps ranges"))
        let none = said(piece("MISS"), piece("MISS"), piece("MISS"))
        #expect(!none.isWell && none.text.contains("keeps no ranges"))
        #expect(said(piece(nil), piece(nil)).text.contains("does not say whether it keeps ranges"))
        #expect(said(piece("MISS"), piece("HIT", bytes: [2])).text.contains("gives other bytes for the same range"))
        #expect(said(piece("MISS"), .failure(.timedOut)).text.contains("answers once, and then"))
    }

    @Test func theDoctorSaysWhetherVersionsAreToldApart() {
        #expect(said(piece("HIT", tag: "\"b\""), piece("HIT")).text.contains("has another version of the file"))
        #expect(said(piece("HIT", bytes: [2]), piece("HIT", bytes: [2])).text.contains("other bytes than the source"))
        #expect(said(piece("HIT", tag: nil), piece("HIT", tag: nil)).text.contains("tells no version"))
    }

    @Test func theDoctorSaysWhyACacheIsOfNoUse() {
        #expect(said(piece(nil, 200)).text.contains("answers a range with the whole file"))
        for answer in [piece(nil, 200), .failure(.status(416, retryAfter: nil))] {
            let folder = said(answer, at: "http://c/films/")
            #expect(!folder.isWell && folder.text.contains("Write the URL of that file after --via."), "\(folder.text)")
        }
        let refused = said(.failure(.status(403, retryAfter: nil)))
        #expect(!refused.isWell && refused.text.contains("--via-credentials"))
        let given = said(.failure(.status(401, retryAfter: nil)), isGivenCredentials: true)
        #expect(given.text.contains("hand Authorization"))
        #expect(said(.failure(.unreachable("no connection"))).text.contains("Check the URL of --via."))
    }
}
