import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelListener

@Suite struct DAVTests {
    private func read(_ body: String, depth: String? = "1") -> Result<(wanted: PropertyRequest, isDeep: Bool), Error> {
        var request = ServedRequest(
            method: "PROPFIND", target: "/dav/", headers: depth.map { [("Depth", $0)] } ?? [])
        request.body = Array(body.utf8)
        return PropertyRequest.read(request).mapError { $0 }
    }

    @Test(
        "What a PROPFIND asks for is read by namespace, whatever the prefixes",
        arguments: [
            ("", .all), (" \n", .all), ("<propfind xmlns='DAV:'><allprop/></propfind>", .all),
            ("<?xml version=\"1.0\"?><!-- < --><D:propfind xmlns:D=\"DAV:\"><D:propname /></D:propfind>\n", .names),
            (
                "<a:propfind xmlns:a='DAV:'><a:prop><a:getetag></a:getetag><b:x xmlns:b='urn:b&#9;'/></a:prop></a:propfind>",
                nil
            ),
            (
                "<a:propfind xmlns:a='DAV:'><a:prop><a:getetag>t</a:getetag><b:x xmlns:b='urn:b'/><y/></a:prop>"
                    + "</a:propfind>",
                .some([PropertyName("DAV:", "getetag"), PropertyName("urn:b", "x"), PropertyName("", "y")])
            ),
            (
                "<propfind xmlns='DAV:'><other><prop/></other><prop><a xmlns='b'/><c/></prop></propfind>",
                .some([PropertyName("b", "a"), PropertyName("DAV:", "c")])
            ),
            ("<propfind><allprop/></propfind>", nil), ("<propfind xmlns='DAV:'/>", nil),
            ("<propfind xmlns='DAV:'><allprop/>", nil), ("<propfind xmlns='DAV:'><allprop></propfind>", nil),
            ("<D:propfind xmlns:D='DAV:'><E:allprop/></D:propfind>", nil),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><allprop/></propfind>", nil),
            ("<propfind xmlns='DAV:'><allprop/></propfind><x/>", nil), ("text", nil), ("<", nil), ("<a b", nil),
            ("<propfind xmlns='DAV:", nil), ("<propfind xmlns='DAV:'>" + String(repeating: "<a>", count: 99), nil),
        ] as [(String, PropertyRequest?)])
    func requests(body: String, expected: PropertyRequest?) {
        #expect(PropertyRequest(Array(body.utf8)) == expected)
    }

    @Test("No part of a body, and none with another byte in it, is read as more than it is")
    func damage() {
        let text = "<?xml?><a:propfind xmlns:a=\"DAV:\"><!-- --><a:prop><b:x xmlns:b='u'/><y/></a:prop></a:propfind>"
        let body = Array(text.utf8)
        #expect(PropertyRequest(body) == .some([PropertyName("u", "x"), PropertyName("", "y")]))
        for count in 1..<body.count { #expect(PropertyRequest(Array(body.prefix(count))) == nil) }
        for place in body.indices {
            for byte in "<>/&'\":\u{0} !?-".utf8 {
                var other = body
                other[place] = byte
                if case .some(.some(let names)) = PropertyRequest(other) { #expect(names.count <= 2) }
            }
        }
    }

    @Test("No request makes an answer repeat more than a few names for each entry")
    func bounds() {
        let body = { (count: Int, name: String) in
            let names = (0..<count).map { "<\(name)\($0)/>" }.joined()
            return PropertyRequest(Array("<propfind xmlns='DAV:'><prop>\(names)</prop></propfind>".utf8))
        }
        #expect(body(64, "a") != nil)
        #expect(body(65, "a") == nil)
        #expect(body(64, String(repeating: "a", count: 100)) == nil)
    }

    @Test(
        "Only depths 0 and 1 are answered",
        arguments: [("0", 0), ("1", 1), ("infinity", 403), (nil, 403), ("2", 400)] as [(String?, Int)])
    func depths(depth: String?, expected: Int) throws {
        switch read("", depth: depth) {
        case .success(let read): #expect(read.isDeep == (expected == 1))
        case .failure(let error):
            let refusal = try #require(error as? PropertyRequest.Refusal)
            #expect(refusal.answer.status == expected)
            guard expected == 403, case .text(let text) = refusal.answer.body else { return }
            #expect(String(decoding: text, as: UTF8.self).contains("<D:propfind-finite-depth/>"))
        }
    }

    @Test(
        "What a method does is decided before the tree is looked at",
        arguments: [
            ("OPTIONS", "/dav/", 200), ("PUT", "/dav/x", 403), ("LOCK", "/dav/x", 403), ("PROPPATCH", "/dav/", 403),
            ("REPORT", "/dav/", 405), ("PROPFIND", "/dav/", nil), ("GET", "/dav/", nil), ("HEAD", "/files/", nil),
            ("PROPFIND", "/files/", 405), ("OPTIONS", "/", 200), ("OPTIONS", "*", 200), ("OPTIONS", "/files/", 405),
            ("PUT", "/dav/../x", 405),
        ] as [(String, String, Int?)])
    func methods(method: String, path: String, status: Int?) {
        let request = ServedRequest(method: method, target: path, headers: [])
        let answer = DAVMethod.answer(request, ServedPath(request.path))
        #expect(answer?.status == status)
        guard let answer, path.hasPrefix("/dav/"), ServedPath(request.path) != .nowhere else { return }
        let headers = Dictionary(uniqueKeysWithValues: answer.headers.map { ($0.name, $0.value) })
        #expect(headers["Allow"] == "OPTIONS, GET, HEAD, PROPFIND")
        #expect(headers["DAV"] == (status == 200 ? "1" : nil))
    }

    /// - Parameter ask: every member that no listing knows has seven bytes, unless it says otherwise.
    private func text(
        _ folder: ListedFolder, _ wanted: PropertyRequest, at path: String = "/dav/",
        ask: @escaping DAVListing.Question = { _ in Attributes(inode: 5, isDirectory: false, length: 7, modified: 0) }
    ) async -> String {
        let root = DAVProperties(name: "", isDirectory: true, nil)
        var list = DAVListing(path, root, folder, wanted, ask: ask) { _ in folder.forget() }
        var all = [UInt8]()
        while let piece = await list.next() { all += piece }
        return String(decoding: all, as: UTF8.self)
    }

    @Test("Members have the properties that are known, the others are 404, and no name writes markup")
    func members() async {
        let folder = ListedFolder([
            ("1 <&>\u{1}\u{FFFF}.mkv", Attributes(inode: 2, isDirectory: false, length: 5, modified: 1_700_000_000)),
            ("x", Attributes(inode: 3, isDirectory: true, length: 0, modified: 1_700_000_000)),
            ("new", Attributes(inode: 4, isDirectory: false, length: 0, modified: 0)), ("unknown.txt", nil),
        ])
        let wanted = PropertyRequest.some([
            PropertyName("DAV:", "getcontentlength"), PropertyName("DAV:", "getetag"), PropertyName("a\"&", "b"),
            PropertyName("", "c"), PropertyName("other", "displayname"),
        ])
        let missing = "<D:getetag/><x:b xmlns:x=\"a&quot;&amp;\"/><c/><x:displayname xmlns:x=\"other\"/>"
        let lines = await text(folder, wanted, at: "/dav/a&b/").split(separator: "\n")
        #expect(lines.count == 8)
        #expect(
            lines[2].hasPrefix("<D:response><D:href>/dav/a&amp;b/</D:href><D:propstat><D:prop><D:getcontentlength/>"))
        #expect(
            lines[3]
                == "<D:response><D:href>/dav/a&amp;b/1%20%3C&amp;%3E%01%EF%BF%BF.mkv</D:href><D:propstat><D:prop>"
                + "<D:getcontentlength>5</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>"
                + "<D:propstat><D:prop>\(missing)</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>"
                + "</D:response>")
        // Its length is not known yet.
        #expect(lines[5].contains("/new<") && lines[5].contains("<D:prop><D:getcontentlength/>"))
        // No listing knows it: it is asked for.
        #expect(lines[6].contains("/unknown.txt<") && lines[6].contains("<D:getcontentlength>7</"))
        let all = await text(folder, .all).split(separator: "\n")
        #expect(
            all[3].contains("<D:displayname>1 &lt;&amp;&gt;??.mkv</D:displayname><D:resourcetype></D:resourcetype>"))
        #expect(all[3].contains("<D:getlastmodified>Tue, 14 Nov 2023 22:13:20 GMT</D:getlastmodified>"))
        #expect(all[3].contains("<D:getcontenttype>video/x-matroska</D:getcontenttype>"))
        #expect(all[4].contains("<D:href>/dav/x/</D:href>") && all[4].contains("<D:collection/>"))
        let names = await text(folder, .names).split(separator: "\n")
        #expect(names[6].contains("<D:prop><D:displayname/><D:resourcetype/><D:getcontenttype/></D:prop>"))
        #expect(folder.counts.references == 0)
    }

    @Test(
        "Lengths that no listing has are asked for, a few at a time, until the origin fails",
        arguments: [(nil, 0, 100), (.notFound, 100, 100), (.timedOut, 100, DAVListing.mostAsked)]
            as [(VolumeError?, Int, Int)])
    func lengths(failure: VolumeError?, unknown: Int, asked: Int) async {
        let folder = ListedFolder(100) { ("film \($0).mkv", nil) }
        let questions = Shared((now: 0, most: 0, all: Set<String>()))
        let text = await text(folder, .all) { name throws(VolumeError) in
            questions.change { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
            questions.change { $0.all.insert(name) }
            await Task.yield()
            questions.change { $0.now -= 1 }
            if let failure { throw failure }
            return Attributes(inode: 5, isDirectory: false, length: 1 << 30, modified: 0)
        }
        let lines = text.split(separator: "\n").filter { $0.contains(".mkv</D:href>") }
        #expect(Set(lines).count == 100)
        #expect(lines.count { !$0.contains("<D:getcontentlength>1073741824</") } == unknown)
        let (_, most, all) = questions.value
        #expect(all.count == asked && most <= DAVListing.mostAsked, "\(all.count) asked, \(most) at a time")
    }

    @Test("A folder of any length is sent in short pieces, made from a part of it each, every entry once")
    func pieces() async {
        let count = LongTests.many(100_000, elseOnly: 20_000)
        let folder = ListedFolder(count) { index in
            ("entry \(index)", Attributes(inode: 2, isDirectory: index % 9 == 0, length: Int64(index), modified: 0))
        }
        let root = DAVProperties(name: "", isDirectory: true, nil)
        var list = DAVListing("/dav/", root, folder, .all, ask: { _ throws(VolumeError) in throw .failed }) { _ in
            folder.forget()
        }
        var (responses, before) = (0, 0)
        while let piece = await list.next() {
            #expect(piece.count < Client.piece + 4096)
            let looked = folder.counts.items - before
            #expect(looked <= FolderWalk.mostItems + 1, "\(looked) items")
            before = folder.counts.items
            #expect(folder.counts.references == 0)
            responses += String(decoding: piece, as: UTF8.self).split(separator: "\n")
                .count { $0.hasPrefix("<D:response>") }
        }
        #expect(responses == count + 1)
    }
}
