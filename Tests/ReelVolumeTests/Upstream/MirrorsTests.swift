import Logging
import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// Which place of a source is asked first, and where a mirror has what.
@Suite struct MirrorsTests {
    private let url = ResourceURL("https://a/films/one/x.mkv?k=1")!

    private func mirrors(
        _ bases: [String] = ["https://b/pub/", "http://c/films"], of source: String = "https://a/films/"
    ) throws -> Mirrors {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return try #require(Mirrors(bases.map { ResourceURL($0)! }, of: ResourceURL(source), logger))
    }

    private func request(_ reason: OriginRequest.Reason = .demand, method: String = "GET") -> OriginRequest {
        var request = OriginRequest(url: url, reason: reason)
        request.method = method
        return request
    }

    private func order(_ mirrors: Mirrors, _ request: OriginRequest, isWide: Bool = false, away: String = "") -> [Int] {
        mirrors.places(for: request, nil, isWide: isWide) { $0 == away }
    }

    @Test(arguments: [
        ("https://a/films/", "https://b/pub/", "https://a/films/one/x.mkv?k=1", "https://b/pub/one/x.mkv?k=1"),
        ("https://a/films", "https://b/pub", "https://a/films/x.mkv", "https://b/pub/x.mkv"),
        ("https://a/films/", "https://b/", "https://a/films/", "https://b/"),
        ("https://a/x.mkv", "https://b/y.mkv", "https://a/x.mkv", "https://b/y.mkv"),
        ("https://a/l/list.m3u", "https://b/m/list.m3u", "https://a/l/x.mkv", "https://b/m/x.mkv"),
        ("https://a/films/", "https://b/pub/", "https://a/other/x.mkv", ""),
        ("https://a/films/", "https://b/pub/", "http://a/films/x.mkv", ""),
        ("https://a/films/", "https://b/pub/", "https://a/filmsx/x.mkv", ""),
    ])
    func aPlaceBelowTheSourceIsAPlaceBelowTheMirror(source: String, base: String, url: String, expected: String) throws
    {
        let mirrors = try mirrors([base], of: source)
        let found = mirrors.url(of: ResourceURL(url)!, at: 1)
        #expect(found?.text ?? "" == expected)
        if let found { #expect(mirrors.original(of: found, at: 1)?.text == url) }
    }

    @Test(arguments: [
        ("https://a/films/", "https://b/pub/", "https://a/films/x?k=1&token=s", "https://b/pub/x?k=1"),
        ("https://a/films/", "https://b/pub/", "https://a/films/x?X-Amz-Signature=s", "https://b/pub/x"),
        ("https://a/l.m3u?token=s", "https://b/m.m3u", "https://a/l.m3u?token=s", "https://b/m.m3u"),
    ])
    func signaturesAreTheSourcesAlone(source: String, base: String, url: String, expected: String) throws {
        #expect(try mirrors([base], of: source).url(of: ResourceURL(url)!, at: 1)?.text == expected)
    }

    @Test func loginsOfTheSourceAreNotThoseOfItsMirror() throws {
        let mirrors = try mirrors(["https://b/"], of: "https://me:pw@a/films/")
        let mine = ResourceURL("https://me:pw@a/films/x.mkv")!
        #expect(mirrors.url(of: mine, at: 1)?.credentials == nil)
        #expect(mirrors.original(of: ResourceURL("https://b/x.mkv")!, at: 1) == mine)
    }

    @Test func theyAreAskedInTheUsersOrder() throws {
        #expect(order(try mirrors(), request()) == [0, 1, 2])
        #expect(order(try mirrors(), request(.hedge)) == [1, 2, 0])
        #expect(order(try mirrors(), request(), away: "https://a") == [1, 2, 0])
        #expect(order(try mirrors(), request(), away: "https://b") == [0, 2, 1])
        // Members of a folder are named by their whole path.
        #expect(order(try mirrors(), request(.listing, method: "PROPFIND")) == [0, 2])
    }

    @Test func aPlaceThatFailedIsAskedLast() throws {
        let mirrors = try mirrors()
        mirrors.began(at: 0)
        mirrors.took(5, from: 0)
        mirrors.ended(at: 0, isUnwell: true)
        #expect(order(mirrors, request()) == [1, 2, 0] && order(mirrors, request(.hedge)) == [2, 0, 1])
        mirrors.avoid(1)
        #expect(order(mirrors, request()) == [2, 0, 1])
        #expect(mirrors.status.map(\.isAvoided) == [true, true, false] && mirrors.status[0].bytes == 5)
    }

    @Test func aSharedCacheIsAskedFirstButForWhatOnlyTheSourceKnows() throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        func mirrors(avoidance: Duration) throws -> Mirrors {
            let shared = SharedCache(ResourceURL("http://k/kept/")!, avoidance: avoidance)
            return try #require(
                Mirrors([ResourceURL("https://b/pub/")!], via: shared, of: ResourceURL("https://a/films/"), logger))
        }
        let places = try mirrors(avoidance: .seconds(3600))
        #expect(places.url(of: url, at: 1)?.text == "http://k/kept/one/x.mkv?k=1")
        #expect(order(places, request()) == [1, 0, 2] && order(places, request(.hedge)) == [0, 2, 1])
        #expect(order(places, request(.ahead), isWide: true) == [1, 0, 2])
        #expect(order(places, request(.probe)) == [0, 1, 2])
        #expect(order(places, request(.listing, method: "PROPFIND")) == [0])
        #expect(places.places(for: request(.listing), nil, isWide: false, mayMirror: false) { _ in false } == [0])
        #expect(places.places(for: request(.tail), nil, isWide: false, mayMirror: false) { _ in false } == [1, 0])
        #expect(order(places, request(), away: "http://k") == [0, 2, 1])
        let version = ContentInformation(length: 9, validator: Validator(entityTag: nil, lastModified: 7))
        places.leaveOut(url, version, at: 1, "it is another")
        #expect(places.places(for: request(), version, isWide: false) { _ in false } == [0, 2])
        let brief = try mirrors(avoidance: .milliseconds(1))
        brief.leaveOut(url, version, at: 1, "it is another")
        #expect(eventually { brief.places(for: request(), version, isWide: false) { _ in false } == [1, 0, 2] })
        places.avoid(1)
        #expect(order(places, request()) == [0, 2, 1])
        places.isBack("http://k")
        #expect(order(places, request()) == [1, 0, 2])
        #expect(
            places.onlyOfShared("http://k") && !places.onlyOfShared("https://a") && !places.onlyOfShared("https://b"))
        // A second try is not made sooner for it.
        let shared = SharedCache(ResourceURL("http://k/kept/")!)
        let alone = Mirrors([], via: shared, of: ResourceURL("https://a/films/"), logger)
        #expect(places.serve(url, version, hasBytes: true) && alone?.serve(url, version, hasBytes: true) == false)
    }

    @Test func requestsAtATimeAreSpread() throws {
        let mirrors = try mirrors()
        var asked: [Int] = []
        for _ in 0..<6 {
            asked.append(order(mirrors, request(.ahead), isWide: true)[0])
            mirrors.began(at: asked.last!)
        }
        #expect(asked == [0, 1, 2, 0, 1, 2])
        #expect(order(mirrors, request(.ahead))[0] == 0)
    }

    @Test func oneAsksWhetherAMirrorAgreesAndAllGetTheAnswer() throws {
        let mirrors = try mirrors()
        let version = ContentInformation(length: 9, validator: Validator(entityTag: nil, lastModified: 7))
        let told = Shared<[String]>([])
        var asked = 0
        for _ in 0..<3 {
            mirrors.find(url, version, at: 1) {
                asked += 1
            } _: { standing in
                told.change { $0 += ["\(standing)"] }
            }
        }
        #expect(asked == 1 && told.value.isEmpty)
        mirrors.settle(url, version, at: 1, isSame: true)
        #expect(told.value.count == 3 && told.value.allSatisfy { $0.hasPrefix("agrees") })
        mirrors.leaveOut(url, version, at: 1, "it is another")
        mirrors.leaveOut(url, version, at: 1, "it is another")
        #expect(mirrors.status[1].leftOut == 1)
        #expect(mirrors.places(for: request(), version, isWide: false) { _ in false } == [0, 2])
        let next = ContentInformation(length: 9, validator: Validator(entityTag: nil, lastModified: 8))
        #expect(mirrors.places(for: request(), next, isWide: false) { _ in false } == [0, 1, 2])
    }

    @Test func whatIsKnownOfMirrorsIsBounded() throws {
        let mirrors = try mirrors()
        let version = ContentInformation(length: 9, validator: Validator(entityTag: nil, lastModified: 7))
        for number in 0..<20_000 {
            mirrors.agreed(ResourceURL("https://a/films/\(number)")!, version, at: 1, version.validator)
        }
        #expect(mirrors.claimCount <= 4096)
    }

    @Test(
        arguments: [
            ("\"a\"", 1, "\"a\"", 2, true), ("\"a\"", 1, "\"b\"", 1, true), ("\"a\"", 1, "\"b\"", 2, false),
            ("W/\"a\"", nil, "W/\"a\"", nil, false), ("\"a\"", nil, "W/\"a\"", nil, false),
            (nil, 1, nil, 1, true), (nil, nil, nil, nil, false), ("\"a\"", 1, nil, nil, false),
        ] as [(String?, Int64?, String?, Int64?, Bool)])
    func agreementIsLengthAndAStrongTagOrLengthAndDate(
        tag: String?, date: Int64?, otherTag: String?, otherDate: Int64?, expected: Bool
    ) {
        func information(_ tag: String?, _ date: Int64?, length: Int64 = 5) -> ContentInformation {
            ContentInformation(
                length: length, validator: Validator(entityTag: tag.flatMap { EntityTag($0) }, lastModified: date))
        }
        #expect(information(tag, date).isProven(by: information(otherTag, otherDate)) == expected)
        #expect(!information(tag, date).isProven(by: information(otherTag, otherDate, length: 6)))
    }
}
