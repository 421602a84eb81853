import ReelCore
import TestKit
import Testing

@testable import ReelSources

private let base = ResourceURL("https://h.example/films/index.m3u8?id=7")!

private func parse(_ text: String) throws -> HLSPlaylist {
    try HLSPlaylist.parse(Array(text.utf8), base: base)
}

/// - Parameter lines: between the head and the end of a media playlist.
private func media(_ lines: String, end: String = "#EXT-X-ENDLIST") throws -> HLSPlaylist {
    try parse("#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(lines)\n\(end)\n")
}

extension HLSPlaylist {
    /// `path range key vector`, one a piece.
    fileprivate var shown: [String] {
        pieces.map { piece in
            let range = piece.range.map { " \($0)" } ?? ""
            let cipher = piece.cipher.map { " \($0.key.path) \($0.initialVector.high)-\($0.initialVector.low)" } ?? ""
            return piece.url.path + range + cipher
        }
    }
}

@Suite struct HLSTests {
    @Test("The segments of a media playlist are pieces of one file, in their order, beside the playlist")
    func segments() throws {
        let list = try media(
            "#EXT-X-DISCONTINUITY\n#EXTINF:2,\na.ts\n#EXTINF:2.5,A title\n/b/b.ts?x=1\n#EXTINF:1e99,\n"
                + "https://other.example/c.ts")
        #expect(list.obstacle == nil && list.fileExtension == "ts" && !list.isMaster)
        #expect(list.shown == ["/films/a.ts", "/b/b.ts", "/c.ts"])
        #expect(list.pieces.map(\.url.origin).suffix(2) == ["https://h.example", "https://other.example"])
        #expect(list.pieces[1].url.query == "x=1")
    }

    @Test("A playlist reads the same with any line end and a byte order mark", arguments: ["\n", "\r\n", "\r"])
    func lineEnds(_ end: String) throws {
        let lines = ["\u{FEFF}#EXTM3U", "#EXT-X-TARGETDURATION:2", "", "#EXTINF:2,", "a.ts", "#EXT-X-ENDLIST"]
        #expect(try parse(lines.joined(separator: end)).shown == ["/films/a.ts"])
    }

    @Test("The initialisation of fragments comes first, and only once")
    func initialisation() throws {
        let map = "#EXT-X-MAP:URI=\"init, 1.mp4\",BYTERANGE=\"700@0\"\n"
        let list = try media(map + "#EXTINF:2,\na.m4s\n" + map + "b.m4s")
        #expect(list.shown == ["/films/init,%201.mp4 0..<700", "/films/a.m4s", "/films/b.m4s"])
        #expect(list.fileExtension == "mp4" && list.mediaType == "video/mp4")
    }

    @Test("Byte ranges that follow each other are one piece, also where offsets are left out")
    func byteRanges() throws {
        let whole = try media("#EXT-X-BYTERANGE:100@0\nall.ts\n#EXT-X-BYTERANGE:50\nall.ts")
        #expect(whole.shown == ["/films/all.ts 0..<150"])
        let gap = try media("#EXT-X-BYTERANGE:150@0\nall.ts\n#EXT-X-BYTERANGE:9@200\nall.ts")
        #expect(gap.shown == ["/films/all.ts 0..<150", "/films/all.ts 200..<209"])
        let clip = try media("#EXT-X-BYTERANGE:9@200\nall.ts\n#EXT-X-BYTERANGE:5\nall.ts")
        #expect(clip.shown == ["/films/all.ts 200..<214"])
        let two = try media("#EXT-X-BYTERANGE:100@0\na.ts\n#EXT-X-BYTERANGE:50@0\nb.ts")
        #expect(two.pieces.count == 2)
    }

    @Test("A key holds for the segments behind it, with its vector or the segment's number")
    func keys() throws {
        let list = try media(
            "#EXT-X-MEDIA-SEQUENCE:7\na.ts\n#EXT-X-KEY:METHOD=AES-128,URI=\"k1\"\nb.ts\n"
                + "#EXT-X-KEY:METHOD=AES-128,URI=\"k2\",IV=0x0000000000000001000000000000000A,KEYFORMAT=\"identity\"\n"
                + "c.ts\nd.ts\n#EXT-X-KEY:METHOD=NONE\ne.ts")
        #expect(
            list.shown == [
                "/films/a.ts", "/films/b.ts /films/k1 0-8", "/films/c.ts /films/k2 1-10", "/films/d.ts /films/k2 1-10",
                "/films/e.ts",
            ])
        let vector = try #require(list.pieces[2].cipher).initialVector.bytes
        #expect(vector == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 10])
    }

    @Test("Signatures of URLs are separated from what the pieces are known by")
    func signatures() throws {
        let list = try media("a.ts?X-Amz-Date=20240501T123456Z&X-Amz-Expires=60&X-Amz-Signature=secret&part=1")
        #expect(list.pieces.map(\.url.text) == ["https://h.example/films/a.ts?part=1"])
        #expect(list.signatures["https://h.example/films/a.ts?part=1"]?.query?.contains("secret") == true)
    }

    static let obstacles: [(String, String)] = [
        ("a.ts\n#EXT-X-DISCONTINUITY\nb.ts", "discontinuities"),
        ("#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\na.ts", "encrypted with SAMPLE-AES"),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"skd://k\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\na.ts", "DRM"),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"data:text/plain;base64,AAAA\"\na.ts", "no http(s) URL (EXT-X-KEY)"),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0xNO\na.ts", "vector of it is broken"),
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXT-X-MAP:URI=\"i.mp4\"\na.m4s", "has no vector"),
        ("#EXT-X-MAP:URI=\"a.mp4\"\na.m4s\n#EXT-X-MAP:URI=\"b.mp4\"\nb.m4s", "initialisation changes"),
        ("a.ts\n#EXT-X-MAP:URI=\"b.mp4\"\nb.m4s", "initialisation comes late"),
        ("#EXT-X-GAP\na.ts", "missing (EXT-X-GAP)"), ("#EXT-X-I-FRAMES-ONLY\na.ts", "single pictures"),
        ("#EXT-X-SKIP:SKIPPED-SEGMENTS=3\na.ts", "leaves segments out"), ("a.vtt", "subtitles"),
        ("a.m4s", "no initialisation"), ("ftp://h/a.ts", "no http(s) URL"), ("", "no segments"),
        ("#EXT-X-BYTERANGE:5\na.ts", "byte range of it is broken"),
        ("#EXT-X-BYTERANGE:9223372036854775807@9223372036854775807\na.ts", "byte range of it is broken"),
        ("#EXT-X-BYTERANGE:5@0\na.ts\n#EXT-X-BYTERANGE:5\nb.ts", "byte range of it is broken"),
        ("a.m3u8;joined", "no http(s) URL"),
        ("#EXT-X-DEFINE:NAME=\"x\",VALUE=\"a\"\n{$x}.ts", "uses variables (EXT-X-DEFINE)"),
    ]

    @Test("What cannot be one exact file stays a playlist, with the reason", arguments: obstacles)
    func obstacle(_ lines: String, _ reason: String) throws {
        let list = try media(lines)
        #expect(list.obstacle?.contains(reason) == true, "\(list.obstacle ?? "none")")
        #expect(list.pieces.isEmpty)
    }

    @Test("A master playlist with variables stays a playlist")
    func masterWithVariables() throws {
        let text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"x\",VALUE=\"a\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{$x}/v.m3u8\n"
        let list = try HLSPlaylist.parse(Array(text.utf8), base: base)
        #expect(list.obstacle?.contains("EXT-X-DEFINE") == true && list.variants.isEmpty)
    }

    @Test(
        "A newer list goes on from an earlier one where it has the last piece of that, and the same before it",
        arguments: [
            ("a b c", "a b c d", "d"), ("a b c", "b c d e", "d e"), ("a b c", "c", ""), ("a b c", "d e", nil),
            ("a b c", "a x c d", nil), ("a b c", "c d c e", nil), ("i a b", "i b c", "c"), ("i a b", "i c d", nil),
        ] as [(String, String, String?)])
    func goesOn(_ earlier: String, _ newer: String, _ rest: String?) {
        func pieces(_ names: String) -> [PieceList.Piece] {
            names.split(separator: " ").map {
                PieceList.Piece(url: base.resolve(String($0))!, range: nil, cipher: nil)
            }
        }
        let list = PieceList(pieces(newer), mediaType: "video/mp2t", isGrowing: true)
        #expect(list.rest(after: pieces(earlier)) == rest.map { pieces($0) })
    }

    @Test(
        "A newer list goes on from ranges of one resource where it has their end, however it cuts them",
        arguments: [
            ("f 0 5", "f 0 9", "f 5 9"), ("f 0 5", "f 0 5", ""), ("f 0 5", "f 3 9", "f 5 9"),
            ("f 0 5", "f 5 9", "f 5 9"), ("f 0 5", "f 6 9", nil), ("f 0 5", "f 0 4", nil), ("f 2 5", "f 0 9", nil),
            ("f 0 5", "g 0 9", nil), ("f 0 5,g 0 2", "f 3 5,g 0 3,h 0 1", "g 2 3,h 0 1"),
            ("f 0 5,g 0 2", "f 3 6,g 0 3", nil), ("i 0 1,f 0 5", "i 0 1,f 4 7", "f 5 7"),
        ] as [(String, String, String?)])
    func goesOnInRanges(_ earlier: String, _ newer: String, _ rest: String?) {
        func pieces(_ text: String) -> [PieceList.Piece] {
            text.split(separator: ",").map { piece in
                let words = piece.split(separator: " ")
                let range = ByteRange(Int64(words[1])!, Int64(words[2])!)
                return PieceList.Piece(url: base.resolve(String(words[0]))!, range: range, cipher: nil)
            }
        }
        let list = PieceList(pieces(newer), mediaType: "video/mp2t", isGrowing: true)
        #expect(list.rest(after: pieces(earlier)) == rest.map { pieces($0) })
    }

    @Test("A list without an end is no obstacle where it may grow")
    func growing() throws {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\na.ts\n"
        let list = try HLSPlaylist.parse(Array(text.utf8), base: base, mayGrow: true)
        #expect(list.isGrowing && list.obstacle == nil && list.shown == ["/films/a.ts"])
        #expect(try !media("a.ts").isGrowing)
    }

    @Test("A list without an end is live, whatever else it is")
    func live() throws {
        let list = try media("#EXT-X-PLAYLIST-TYPE:EVENT\na.ts", end: "")
        #expect(list.obstacle?.contains("live") == true && list.pieces.isEmpty)
    }

    @Test("More segments than a day has are none")
    func tooMany() throws {
        let lines = String(repeating: "a.ts\n", count: HLSPlaylist.mostPieces)
        #expect(try media(lines).pieces.count == HLSPlaylist.mostPieces)
        #expect(try media(lines + "a.ts").obstacle?.contains("more than 50000 segments") == true)
    }

    @Test("A master playlist names its variants once each; pictures and keys of the session are none of them")
    func master() throws {
        let list = try parse(
            """
            #EXTM3U
            #EXT-X-SESSION-KEY:METHOD=AES-128,URI="k"
            #EXT-X-STREAM-INF:BANDWIDTH=5800000,RESOLUTION=1920x1080,CODECS="avc1,mp4a",AUDIO="in"
            high.m3u8
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="pictures.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=5900000,RESOLUTION=1920x1080
            high.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=128000
            sound.m3u8
            #EXT-X-STREAM-INF:CODECS="x"
            odd.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=800000,RESOLUTION=640x360,AUDIO="apart"
            low.m3u8
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="in",NAME="first",DEFAULT=YES
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="in",NAME="second",URI="other.m3u8"
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="apart",NAME="first",URI="other.m3u8"
            """)
        #expect(list.isMaster)
        #expect(
            list.variants.map { "\($0.title) \($0.url.path) \($0.hasSeparateSound)" } == [
                "1920x1080 5800k /films/high.m3u8 false", "128k /films/sound.m3u8 false",
                "variant 3 /films/odd.m3u8 false", "640x360 800k /films/low.m3u8 true",
            ])
    }

    @Test("Attribute lists end at their first mistake, and quotes keep commas together")
    func attributes() {
        let list = HLSAttributes(Array("A=1, B=\"x,y=z\" ,C=3,A=9,D=\"open".utf8)[...])
        #expect([list["A"], list["B"], list["C"], list["D"]] == ["1", "x,y=z", "3", nil])
        #expect(list.number("C") == 3 && list.number("B") == nil)
        #expect(HLSAttributes(Array("=,,=".utf8)[...])["A"] == nil)
    }

    @Test("A playlist is read in time that grows with its length")
    func work() throws {
        let piece = "#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x1\na.ts\n#EXT-X-BYTERANGE:1@{$\n"
        let work = Work(size: 1000) { size in
            Array(("#EXTM3U\n#EXT-X-TARGETDURATION:2\n" + String(repeating: piece, count: size)).utf8)
        } run: {
            _ = try? HLSPlaylist.parse($0, base: base)
        }
        #expect(work.isLinear, "\(work)")
    }
}
