import ReelCore

/// How a kind that one document lists writes it.
struct DocumentForm: Sendable {
    let name: String
    /// The SOURCE for the URL of a server.
    var address: @Sendable (_ server: String) -> String
    /// The path at which the server is asked for it.
    var path: String
    var method = "GET"
    var status = 200
    var type: String
    /// The extension of a file with it on the disk.
    var fileExtension = ""
    /// The name that is shown for a film's.
    var shown: @Sendable (String) -> String = { $0 }
    /// - Parameter base: the URL of the server's folder of films, which ends in a slash.
    var text: @Sendable (_ names: [[UInt8]], _ base: String) -> [UInt8]

    static let nginx = DocumentForm(
        name: "HTML listing", address: { $0 + "films/" }, path: "/films/", type: "text/html"
    ) { names, _ in
        let head = "<html><head><title>Index of /films/</title></head><body><pre><a href=\"../\">../</a>\n"
        let lines = names.map { Array("<a href=\"\(escaped($0))\">".utf8) + markup($0) + Array("</a>\n".utf8) }
        return Array(head.utf8) + lines.joined() + Array("</pre></body></html>".utf8)
    }

    /// nginx writes a name's bytes as they are, those of controls as an escape.
    static let json = DocumentForm(
        name: "JSON listing", address: { $0 + "films/" }, path: "/films/", type: "application/json"
    ) { names, _ in
        let objects = names.map { name in
            let text = name.flatMap { byte -> [UInt8] in
                if byte < 0x20 { return Array((byte < 0x10 ? "\\u000" : "\\u00").utf8) + String(byte, radix: 16).utf8 }
                return byte == 0x22 || byte == 0x5C ? [0x5C, byte] : [byte]
            }
            return Array("{\"type\":\"file\",\"name\":\"".utf8) + text + Array("\"}".utf8)
        }
        return Array("[".utf8) + objects.joined(separator: [0x2C]) + Array("]".utf8)
    }

    static let m3u = DocumentForm(
        name: "M3U", address: { $0 + "list.m3u" }, path: "/list.m3u", type: "audio/x-mpegurl", fileExtension: "m3u"
    ) { names, base in
        let lines = names.enumerated().map { number, name in
            // A title is a line of text.
            Array("#EXTINF:1,".utf8) + Array(stem(name)).map { $0 == 0x0A || $0 == 0 ? 0x20 : $0 }
                + Array("\n\(base)\(number)/\(escaped(name))\n".utf8)
        }
        return Array("#EXTM3U\n".utf8) + lines.joined()
    }

    static let rss = DocumentForm(
        name: "RSS", address: { $0 + "feed.xml" }, path: "/feed.xml", type: "application/rss+xml", fileExtension: "xml"
    ) { names, base in
        let items = names.enumerated().map { number, name in
            Array("<item><title>".utf8) + markup(Array(stem(name)))
                + Array("</title><enclosure url=\"\(base)\(number)/\(escaped(name))\"/></item>".utf8)
        }
        return Array("<rss><channel>".utf8) + items.joined() + Array("</channel></rss>".utf8)
    }

    /// A variant a name.
    static let hls = DocumentForm(
        name: "HLS", address: { $0 + "all.m3u8" }, path: "/all.m3u8", type: "application/vnd.apple.mpegurl",
        fileExtension: "m3u8", shown: { String($0.dropLast(4)) + ".ts" }
    ) { names, base in
        let lines = names.map { name in
            "#EXT-X-STREAM-INF:RESOLUTION=\(String(decoding: stem(name), as: UTF8.self))\n"
                + "\(base)variant/\(escaped(name)).m3u8\n"
        }
        return Array(("#EXTM3U\n" + lines.joined()).utf8)
    }

    static let webDAV = DocumentForm(
        name: "WebDAV", address: { "dav" + $0.dropFirst(4) + "films/" }, path: "/films/", method: "PROPFIND",
        status: 207, type: "application/xml"
    ) { names, _ in
        func response(_ href: String, _ type: String) -> String {
            "<D:response><D:href>\(href)</D:href><D:propstat><D:prop><D:resourcetype>\(type)</D:resourcetype></D:prop>"
                + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        }
        let members = names.map { response("/films/\(escaped($0))", "") }
        return Array(
            ("<D:multistatus xmlns:D=\"DAV:\">\(response("/films/", "<D:collection/>"))"
                + members.joined() + "</D:multistatus>").utf8)
    }

    static let s3 = DocumentForm(
        name: "S3", address: { "s3+\($0)#films" }, path: "/films", type: "application/xml"
    ) { names, _ in
        let objects = names.map { "<Contents><Key>\(escaped($0))</Key></Contents>" }
        return Array(
            ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
                + objects.joined() + "</ListBucketResult>").utf8)
    }

    /// A film of the first name, which nothing lists.
    static let file = DocumentForm(
        name: "file", address: { $0 + "films/one.mkv" }, path: "", type: ""
    ) { _, _ in [] }

    /// Each byte that could end a name or a URL, and all of a name of dots alone.
    private static func escaped(_ name: [UInt8]) -> String {
        let isDots = name.allSatisfy { $0 == 0x2E }
        return name.map { byte in
            !isDots && (isUnreserved(byte))
                ? String(Unicode.Scalar(byte)) : "%" + (byte < 0x10 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    private static func markup(_ name: [UInt8]) -> [UInt8] {
        name.flatMap { byte -> [UInt8] in
            switch byte {
            case 0x26: Array("&amp;".utf8)
            case 0x3C: Array("&lt;".utf8)
            default: [byte]
            }
        }
    }

    private static func stem(_ name: [UInt8]) -> ArraySlice<UInt8> {
        name.suffix(4).elementsEqual(".mkv".utf8) ? name.dropLast(4) : name[...]
    }
}
