import ReelCore
import Testing

@testable import reelfs

/// `--growing`, with what knows a file by its length.
@Suite struct GrowingOptionTests {
    private func options(_ given: [(String, String?)]) throws -> MountOptions {
        var options = MountOptions()
        for (name, value) in given { try options.apply(GivenOption(name, value)) }
        return options
    }

    @Test(arguments: [("mirror", "http://b/"), ("via", "http://c/")])
    func mirrorsAndSharedCachesAreRefused(_ other: (name: String, value: String)) throws {
        let options = try options([("growing", nil), (other.name, other.value)])
        #expect {
            _ = try SourceConfiguration("http://a/", options)
        } throws: { error in
            (error as? Failure)?.sentence.contains("option growing goes neither with mirror nor with via") == true
        }
        _ = try SourceConfiguration("http://a/", try self.options([("growing", nil)]))
    }
}
