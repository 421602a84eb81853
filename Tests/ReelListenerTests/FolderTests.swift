import ReelListener
import Testing

@Suite struct FolderTests {
    private let document = FolderDocument(
        ["a&b"],
        [
            FolderDocument.Item(name: "10 <b>.mkv", isFolder: false, length: 5, modified: 1_700_000_000),
            FolderDocument.Item(name: "9 &amp;:\"\n.mkv", isFolder: false, length: nil, modified: nil),
            FolderDocument.Item(name: "notes.txt", isFolder: false, length: 1, modified: 0),
            FolderDocument.Item(name: "x", isFolder: true, length: 0, modified: nil),
        ])

    @Test("A page names folders first, and no name of an origin can write markup")
    func page() {
        let lines = String(decoding: document.page, as: UTF8.self).split(separator: "\n")
        #expect(lines[2].contains("<title>Index of /a&amp;b/</title>"))
        let pad = String(repeating: " ", count: 41)
        #expect(lines[3].hasSuffix("<pre><a href=\"../\">../</a>") || lines[4].hasSuffix("<a href=\"../\">../</a>"))
        let entries = lines.filter { $0.hasPrefix("<a ") }
        #expect(entries[0].hasPrefix("<a href=\"x/\">x/</a>"))
        #expect(entries[1].hasPrefix("<a href=\"10%20%3Cb%3E.mkv\">10 &lt;b&gt;.mkv</a>\(pad)2023-11-14 22:13:20"))
        #expect(entries[1].hasSuffix(" 5"))
        #expect(entries[2].hasPrefix("<a href=\"9%20&amp;amp;%3A%22%0A.mkv\">9 &amp;amp;:&quot;?.mkv</a>"))
    }

    @Test("A playlist names films and music alone, in the order of their numbers")
    func playlist() {
        let text = String(decoding: document.playlist(base: "http://h/files/a&b/"), as: UTF8.self)
        #expect(
            text == """
                #EXTM3U
                #EXTINF:-1,9 &amp;:"?.mkv
                http://h/files/a&b/9%20&amp;%3A%22%0A.mkv
                #EXTINF:-1,10 <b>.mkv
                http://h/files/a&b/10%20%3Cb%3E.mkv

                """)
    }
}
