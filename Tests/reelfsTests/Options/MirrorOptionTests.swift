import ReelCore
import ReelVolume
import Testing

@testable import reelfs

/// `--mirror`, wherever it is given, and what `reelfs doctor` says of it.
@Suite struct MirrorOptionTests {
    private func options(_ values: [String]) throws -> MountOptions {
        var options = MountOptions()
        for value in values { try options.apply(GivenOption("mirror", value)) }
        return options
    }

    @Test func mirrorsStandInTheOrderInWhichTheyAreGiven() throws {
        let texts = ["https://b/films/", "http://c:8080/"]
        #expect(try options(texts).mirrors.map(\.text) == texts)
        let catalogue = try Catalogue(
            parsing: """
                [defaults]
                mirror = "https://all/"
                [[source]]
                path = "one"
                source = "https://a/"
                mirror = ["https://b/", "https://c/"]
                [[source]]
                path = "two"
                source = "https://d/"
                """, path: "/all.toml", MountOptions())
        #expect(catalogue.sources.map { $0.options.mirrors.map(\.host) } == [["b", "c"], ["all"]])
    }

    @Test(arguments: ["ftp://b/", "b/films", "/films", "https://me:pw@b/", "https://b/?token=1", ""])
    func anotherMirrorIsRefused(value: String) {
        #expect(throws: Failure.self) { try options([value]) }
    }

    @Test(arguments: ["ftp://a/", "sftp://a/", "s3://bucket/films", "/dev/null"])
    func anotherSourceHasNoMirrors(source: String) throws {
        let options = try options(["https://b/"])
        #expect {
            _ = try SourceConfiguration(source, options)
        } throws: { error in
            (error as? Failure)?.sentence.contains("mirrors are for http and https") == true
        }
    }

    @Test(
        arguments: [
            (5, "\"a\"", "ok    the mirror http://b has the same version"),
            (6, "\"a\"", "another length"), (5, "\"b\"", "another ETag and date"), (0, "", "the origin answers 404"),
        ] as [(Int64, String, String)])
    func theDoctorTellsWhetherAMirrorAgrees(length: Int64, tag: String, expected: String) {
        func information(_ length: Int64, _ tag: String) -> ContentInformation {
            ContentInformation(length: length, validator: Validator(entityTag: EntityTag(tag), lastModified: nil))
        }
        let first = OriginFacts.Probe(outcome: .success(information(5, "\"a\"")))
        let facts = OriginFacts(url: ResourceURL("http://a/film.mkv")!, first: first)
        let found: Result<ContentInformation, OriginFailure> =
            length > 0 ? .success(information(length, tag)) : .failure(.status(404, retryAfter: nil))
        var diagnosis = Diagnosis()
        diagnosis.add(mirror: ResourceURL("http://b/film.mkv")!, OriginFacts.Probe(outcome: found), of: facts)
        #expect(diagnosis.text.replacing("\n      ", with: " ").contains(expected), "\(diagnosis.text)")
        #expect(diagnosis.isWell == expected.hasPrefix("ok"))
    }
}
