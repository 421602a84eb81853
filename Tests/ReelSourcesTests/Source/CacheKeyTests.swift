import ReelCore
import Testing

@testable import ReelSources

/// What files are known by in the cache.
@Suite struct CacheKeyTests {
    @Test(
        arguments: [
            ("http://h/a.mkv", .url, "http://h/a.mkv"),
            ("http://h/a.mkv?id=7", .url, "http://h/a.mkv?id=7"),
            ("http://me:secret@h/a.mkv?", .url, "http://h/a.mkv?"),
            ("http://h/a.mkv?id=7&token=x&Expires=9", .url, "http://h/a.mkv?id=7"),
            ("http://h/a.mkv?access_token=x", .url, "http://h/a.mkv"),
            ("http://h/a.mkv?tokens=x&signed=1", .url, "http://h/a.mkv?tokens=x&signed=1"),
            ("http://h/a.mkv?X-Amz-Date=1&X-Amz-Signature=2&versionId=3", .url, "http://h/a.mkv?versionId=3"),
            ("http://h/a.mkv?X-Goog-Signature=2&X-Goog-Date=1", .url, "http://h/a.mkv"),
            ("http://h/a.mkv?Policy=a&Signature=b&Key-Pair-Id=c", .url, "http://h/a.mkv"),
            ("http://h/a.mkv?sv=1&se=2&sig=3&snapshot=4", .url, "http://h/a.mkv?snapshot=4"),
            ("http://h/a.mkv?hdnts=exp=1~acl=/*~hmac=2", .url, "http://h/a.mkv"),
            ("http://h/a.mkv?hdnea=exp=1~acl=/*~hmac=2&id=7", .url, "http://h/a.mkv?id=7"),
            ("http://h/a.mkv?id=7&hdntl=exp=1~acl=/*~data=x~hmac=2", .url, "http://h/a.mkv?id=7"),
            ("http://h/a.mkv?__token__=exp=1~hmac=2", .url, "http://h/a.mkv"),
            ("http://other:8080/films/a%20b.mkv?id=7", .path, "/films/a%20b.mkv"),
            ("http://h/films/a%20b.mkv?id=7", .name, "name:1000:a%20b.mkv"),
            ("http://h/films/?id=7", .name, "http://h/films/?id=7"),
        ] as [(String, CacheKey, String)])
    func aFileHasOneKey(_ url: String, _ mode: CacheKey, _ key: String) throws {
        #expect(mode.key(of: try #require(ResourceURL(url)), length: 1000) == key)
    }

    @Test func aSignedURLWithoutAValidatorIsSharedWithNone() throws {
        let url = try #require(ResourceURL("http://h/a.mkv?token=x"))
        let nothing = Validator(entityTag: nil, lastModified: nil)
        #expect(CacheKey.url.key(of: url, ContentInformation(length: 1, validator: nothing)) == url.text)
        let dated = Validator(entityTag: nil, lastModified: 1)
        #expect(CacheKey.url.key(of: url, ContentInformation(length: 1, validator: dated)) == "http://h/a.mkv")
    }

    @Test func aNameWithoutALengthIsNoKey() throws {
        let url = try #require(ResourceURL("http://h/a.mkv"))
        #expect(CacheKey.name.key(of: url, length: nil) == url.text)
        #expect(CacheKey.name.key(of: url, length: 1, acceptsRanges: false) == url.text)
        #expect(CacheKey.name(inKey: "name:10:a%20b:c") == "a b:c")
        #expect(CacheKey.name(inKey: "name:10") == nil && CacheKey.name(inKey: "http://h/name:1:a") == nil)
    }

    @Test(
        arguments: [
            ("http://h/films/", .url, "http://h/films/"), ("http://h/list?token=a", .url, "http://h/list?token=a"),
            ("http://h/a.mkv?X-Amz-Signature=2", .url, "http://h/a.mkv"), ("http://h/films/?a", .path, "path:/films/"),
            ("http://h/my/films/", .name, "name:films"), ("http://h/", .name, "name:"),
        ] as [(String, CacheKey, String)])
    func aSourceHasADirectory(_ url: String, _ mode: CacheKey, _ name: String) throws {
        #expect(mode.directory(of: try #require(ResourceURL(url))) == name)
    }
}
