import ReelFilesystem
import TestKit
import Testing

@testable import ReelListener

@Suite struct FolderTests {
    private static func file(_ length: Int64, _ modified: Int64 = 0) -> Attributes {
        Attributes(inode: 2, isDirectory: false, length: length, modified: modified)
    }

    private let folder = ListedFolder([
        ("10 <b>.mkv", file(5, 1_700_000_000)), ("9 &amp;:\"\n\u{85}\u{2028}\u{2029}.mkv", nil),
        ("notes.txt", file(1)), ("x", Attributes(inode: 3, isDirectory: true, length: 0, modified: 1_700_000_000)),
    ])

    private func text(_ pieces: some TextPieces) async -> String {
        var (pieces, all) = (pieces, [UInt8]())
        while let piece = await pieces.next() { all += piece }
        return String(decoding: all, as: UTF8.self)
    }

    @Test("A page names folders first, and no name of an origin can write markup")
    func page() async {
        let folder = folder
        let lines = await text(FolderPage(["a&b"], folder) { _ in folder.forget() }).split(separator: "\n")
        #expect(lines[2].contains("<title>Index of /a&amp;b/</title>"))
        let pad = String(repeating: " ", count: 41)
        #expect(lines[4].hasSuffix("<pre><a href=\"../\">../</a>"))
        let entries = lines.filter { $0.hasPrefix("<a ") }
        #expect(entries[0].hasPrefix("<a href=\"x/\">x/</a>") && entries[0].contains(" 2023-11-14 22:13:20 "))
        #expect(entries[1].hasPrefix("<a href=\"10%20%3Cb%3E.mkv\">10 &lt;b&gt;.mkv</a>\(pad)2023-11-14 22:13:20"))
        #expect(entries[1].hasSuffix(" 5"))
        #expect(
            entries[2].hasPrefix(
                "<a href=\"9%20&amp;amp;%3A%22%0A%C2%85%E2%80%A8%E2%80%A9.mkv\">9 &amp;amp;:&quot;????.mkv</a>"))
        #expect(entries.count == 4 && lines.last == "</html>" && folder.counts.references == 0)
    }

    @Test("A playlist names films and music alone, in the order of their numbers, a line each")
    func playlist() async {
        let list = FolderPlaylist(.m3u, base: "http://h/files/a&b/", folder) { false }
        #expect(
            await text(list) == """
                #EXTM3U
                #EXTINF:-1,9 &amp;:"????.mkv
                http://h/files/a&b/9%20&amp;%3A%22%0A%C2%85%E2%80%A8%E2%80%A9.mkv
                #EXTINF:-1,10 <b>.mkv
                http://h/files/a&b/10%20%3Cb%3E.mkv

                """)
        #expect(
            await text(FolderPlaylist(.xspf, base: "http://h/files/a&b/", folder) { false }) == """
                <?xml version="1.0" encoding="UTF-8"?>
                <playlist version="1" xmlns="http://xspf.org/ns/0/">
                <trackList>
                <track><location>http://h/files/a&amp;b/9%20&amp;amp;%3A%22%0A%C2%85%E2%80%A8%E2%80%A9.mkv</location>\
                <title>9 &amp;amp;:&quot;????.mkv</title></track>
                <track><location>http://h/files/a&amp;b/10%20%3Cb%3E.mkv</location><title>10 &lt;b&gt;.mkv</title></track>
                </trackList>
                </playlist>

                """)
        let empty = await text(FolderPlaylist(.xspf, base: "", ListedFolder.films(0)) { false })
        #expect(empty.hasSuffix("<trackList>\n</trackList>\n</playlist>\n"))
        // A client that has gone gets no order.
        #expect(await text(FolderPlaylist(.m3u, base: "", folder) { true }).split(separator: "\n").count <= 3)
    }

    @Test("A page of any length is made in short pieces, from a part of the folder each, and names each entry once")
    func pieces() throws {
        let count = 20_000
        let folder = ListedFolder(count) { index in
            let isDirectory = index % 5000 == 7
            let attributes = Attributes(inode: 2, isDirectory: isDirectory, length: Int64(index), modified: 0)
            return ("entry \(index)", index % 1000 == 3 ? nil : attributes)
        }
        var page = FolderPage([], folder) { _ in folder.forget() }
        var (names, before) = ([Substring](), 0)
        while let piece = page.next() {
            #expect(piece.count < Client.piece + 4096)
            let looked = folder.counts.items - before
            #expect(looked <= 2100, "\(looked) items")
            before = folder.counts.items
            for line in String(decoding: piece, as: UTF8.self).split(separator: "\n") where line.hasPrefix("<a ") {
                names.append(line.split(separator: ">")[1].split(separator: "<")[0])
            }
        }
        let folders = [7, 5007, 10_007, 15_007].map { "entry \($0)/" }
        let files = (0..<count).filter { $0 % 5000 != 7 }.map { "entry \($0)" }
        #expect(names.map { String($0) } == folders + files)
        #expect(folder.counts.references == 0)
        // No folder is looked for a third time.
        #expect(folder.counts.items < 2 * count + 100)
        let films = ListedFolder.films(3000)
        var list = FolderPlaylist(.m3u, base: "http://h/", films) { false }
        var lines = 0
        while let piece = list.next() {
            #expect(piece.count < Client.piece + 4096)
            lines += piece.count { $0 == 0x0A }
        }
        #expect(lines == 6001)
    }
}
