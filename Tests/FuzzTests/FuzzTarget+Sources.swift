import ReelCore

@testable import ReelSources

extension FuzzTarget {
    private static let place = ResourceURL("http://user:secret@host.example:8080/media/films/?page=1")!

    /// Documents that a source may be.
    static let pages = [
        FuzzTarget("listing-html", pages: ".html") { bytes in
            try checkListing(try? Listing.parse(bytes, mediaType: "text/html", url: place))
        },
        FuzzTarget("listing-json", pages: ".json") { bytes in
            try checkListing(try? Listing.parse(bytes, mediaType: "application/json", url: place))
        },
        FuzzTarget("multistatus") { bytes in
            let whole = multiStatus(bytes, piece: bytes.count)
            try require(whole == multiStatus(bytes, piece: 1), "it depends on the pieces in which it comes")
            try checkListing(try? whole.get())
        },
        FuzzTarget("list") { bytes in
            for form in [FolderLines.Form.facts, .text] {
                let whole = folderLines(bytes, form, piece: bytes.count)
                try require(whole == folderLines(bytes, form, piece: 1), "it depends on the pieces in which it comes")
                try checkListing(try? whole.get(), of: server)
            }
        },
        FuzzTarget("playlist") { bytes in
            for suffix in ["m3u", "pls", "xspf", "txt", ""] {
                _ = PlaylistFormat.detect(bytes, mediaType: nil, fileExtension: suffix)
            }
            for format in [PlaylistFormat.urls, .m3u, .pls, .xspf] {
                for base in [place, nil] {
                    guard let list = try? Playlist.parse(bytes, format: format, base: base) else { continue }
                    try check(Array(list.entries))
                }
            }
        },
        FuzzTarget("hls") { bytes in
            for root in [SourcePlace.url(place), .path("/films/index.m3u8")] {
                guard let list = try? HLSPlaylist.parse(bytes, base: root.url) else { continue }
                try require(list.obstacle == nil || list.pieces.isEmpty, "pieces of what is no file")
                try require(list.pieces.count <= HLSPlaylist.mostPieces, "too many pieces")
                for piece in list.pieces {
                    try requireSame(piece.url)
                    if let key = piece.cipher?.key { try requireSame(key) }
                }
                let head = root.url.map {
                    ResponseHead(status: 200, headers: [("content-length", "\(bytes.count)")], url: $0)
                }
                var reader = HLSSource(root: root).list(root, known: nil)
                _ = try? reader.start()
                try? reader.head(head)
                try? reader.take(bytes)
                switch try? reader.end({ false }) {
                case .entries(let entries, _): try check(Array(entries))
                case .ask(.origin(let request)): try requireSame(request.url)
                case .ask, .beginnings, nil: break
                }
            }
        },
        FuzzTarget("feed") { bytes in
            guard let format = FeedFormat(of: bytes, mediaType: nil) else { return }
            for base in [place, nil] {
                var feed = FeedEntries()
                feed.base = base
                _ = try? format.read(bytes, &feed, StopCheck { false })
                try check(Array(feed.list()))
            }
        },
        FuzzTarget("bucket", pages: ".xml") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            for endpoint in [nil, bucket.root] {
                guard let address = S3Address(text, endpoint: endpoint) else { continue }
                try requireSame(address.root)
                try require(
                    S3Address(address.text)?.root.text == address.root.text, "\(address.text) is another address")
            }
            let folder = SourcePlace.url(bucket.root)
            var reader = S3Source(bucket).list(folder, known: nil)
            _ = try? reader.start()
            try? reader.head(nil)
            try? reader.take(bytes)
            switch try? reader.end({ false }) {
            case .entries(let entries, _): try checkListing(entries, of: bucket.root)
            case .ask(.origin(let request)):
                let sent = S3Source(bucket).request(request)
                try require(sent.url.isSameOrigin(as: bucket.root), "\(sent.url.text) is of another origin")
                let query = sent.signed?.text.dropFirst("/films?".utf8.count) ?? ""
                let goesOn = query.hasPrefix("continuation-token=") || query.contains("&start-after=")
                try require(goesOn && sent.signed?.text.hasPrefix("/films?") == true, "\(sent.url.text)")
            case .ask, .beginnings, nil: break
            }
        },
    ]

    private static func multiStatus(_ bytes: [UInt8], piece: Int) -> Result<EntryList, SourceRefusal> {
        Result { () throws(SourceRefusal) in
            var answer = MultiStatus(of: place, known: nil)
            for start in stride(from: 0, to: bytes.count, by: max(1, piece)) {
                try answer.take(Array(bytes[start...].prefix(piece)))
            }
            return try answer.finish()
        }
    }

    private static let server = ResourceURL(trusted: "ftp://user:secret@host.example/films/")!

    private static func folderLines(
        _ bytes: [UInt8], _ form: FolderLines.Form, piece: Int
    ) -> Result<EntryList, SourceRefusal> {
        Result { () throws(SourceRefusal) in
            var lines = FolderLines(of: server, form, now: 1_714_996_800)
            for start in stride(from: 0, to: bytes.count, by: max(1, piece)) {
                try lines.take(Array(bytes[start...].prefix(piece)))
            }
            try lines.finish()
            return lines.list()
        }
    }

    private static let bucket = S3Address("s3://films/x y/", endpoint: ResourceURL("http://host.example:8080/"))!

    private static func checkListing(_ entries: EntryList?, of folder: ResourceURL = place) throws {
        guard let entries else { return }
        try check(Array(entries))
        for (index, entry) in entries.enumerated() {
            try require(entries.place(of: entry.name) == index, "\(entry.name) is not found")
            try require(entry.url.isSameOrigin(as: folder), "\(entry.url.text) is of another origin")
            try require(entry.url.path.hasPrefix(folder.folder.path), "\(entry.url.text) is outside of its directory")
        }
    }

    private static func check(_ entries: [SourceEntry]) throws {
        try require(Set(entries.map { Array($0.name.utf8) }).count == entries.count, "two entries of one name")
        for entry in entries {
            try requireSafe(entry.name)
            try require(entry.length ?? 0 >= 0, "length \(entry.length ?? 0)")
            try requireSame(entry.url)
            let isOther =
                !entry.url.isSameOrigin(as: place) && !entry.url.isSameOrigin(as: server)
                && entry.url.credentials == place.credentials
            try require(!isOther, "\(entry.url.text) gets the credentials of another origin")
        }
    }

    /// Pieces of text.
    static let texts = [
        FuzzTarget("url") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            if let url = ResourceURL(text) { try requireSame(url) }
            for line in text.split(separator: "\n", maxSplits: 2) {
                guard let url = place.resolve(String(line)) else { continue }
                try requireSame(url)
                try requireSame(url.folder)
                let isKept = url.credentials == nil || url.isSameOrigin(as: place) || line.utf8.contains(0x40)
                try require(isKept, "\(url.text) gets the credentials of another origin")
                if let suffix = url.suffix(below: place.folder) {
                    let again = place.folder.below(suffix[...])
                    try require(again.text == url.text, "\(url.text) is not \(again.text)")
                }
            }
        },
        FuzzTarget("name") { bytes in
            try requireSafe(SafeName.make(bytes))
            var names = UniqueNames()
            var entries = EntryList.Builder()
            var made: Set<[UInt8]> = []
            for part in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
                let name = names.claim(SafeName.make(part), beside: entries)
                try requireSafe(name)
                try require(made.insert(Array(name.utf8)).inserted, "\(name) is made twice")
                entries.append(SourceEntry(name: name, url: place, isDirectory: false, length: nil, modified: nil))
            }
            let text = percentEncodedSegment(bytes)
            try require(percentDecoded(text) == bytes, "\(text) is decoded as something else")
            _ = percentDecoded(String(decoding: bytes, as: UTF8.self))
        },
    ]

    private static func requireSafe(_ name: String) throws(FuzzFinding) {
        let bytes = Array(name.utf8)
        let isSafe = (1...255).contains(bytes.count) && !bytes.contains { $0 < 0x20 || $0 == 0x2F || $0 == 0x7F }
        try require(isSafe && name != "." && name != "..", "the name \(bytes)")
    }

    /// What a URL is written as is that URL.
    private static func requireSame(_ url: ResourceURL) throws(FuzzFinding) {
        let again = ResourceURL(trusted: url.text)
        try require(again?.text == url.text, "\(url.text) is read as \(again?.text ?? "no URL")")
        // A host may have any letters; the rest is encoded.
        let rest = url.path + (url.query ?? "")
        try require(rest.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "\(Array(rest.utf8))")
        let segments = url.path.split(separator: "/", omittingEmptySubsequences: false)
        try require(url.path.hasPrefix("/") && !segments.contains("..") && !segments.contains("."), "\(url.path)")
    }
}
