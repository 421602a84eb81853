import ReelCore

/// What the lines of an HLS playlist have said so far. Tags that are not named here say nothing of the file's bytes.
struct HLSReading {
    /// nil if the playlist is on the disk.
    private let base: ResourceURL?
    private let mayGrow: Bool
    private var playlist = HLSPlaylist()

    // Of a media playlist.
    private var cipher = Encryption.none
    /// The initialisation that the segments from here on need.
    private var map: PieceList.Piece?
    private var sequence: Int64 = 0
    /// EXT-X-BYTERANGE of the next segment.
    private var subrange: ArraySlice<UInt8>?
    /// Where the last byte range ended.
    private var last: (url: ResourceURL, end: Int64)?
    private var segments = 0
    private var hasEnd = false
    private var isMedia = false

    // Of a master playlist.
    private var stream: HLSAttributes?
    private var known: Set<String> = []
    /// The places of renditions of sound, by group: where they are, nil if in the variant itself.
    private var sounds: [String: [ResourceURL?]] = [:]
    /// The groups of the variants' sound, in the variants' order.
    private var soundGroups: [String?] = []

    private enum Encryption {
        case none
        case aes(key: ResourceURL, PieceList.InitialVector?)
    }

    init(_ base: ResourceURL?, mayGrow: Bool) { (self.base, self.mayGrow) = (base, mayGrow) }

    private mutating func refuse(_ obstacle: String) {
        playlist.obstacle = playlist.obstacle ?? obstacle
        playlist.pieces = []
    }

    // MARK: Tags

    mutating func tag(_ line: ArraySlice<UInt8>) {
        let name = line.prefix { $0 != UInt8(ascii: ":") }
        let value = line[name.endIndex...].dropFirst()
        switch String(decoding: name.prefix(40), as: UTF8.self) {
        case "#EXT-X-TARGETDURATION": isMedia = true
        case "#EXT-X-MEDIA-SEQUENCE":
            isMedia = true
            sequence = decimal(trimmedBytes(value)) ?? 0
        case "#EXT-X-ENDLIST": hasEnd = true
        case "#EXT-X-BYTERANGE": subrange = value
        // Before the first segment it parts nothing.
        case "#EXT-X-DISCONTINUITY" where segments > 0:
            refuse("it has discontinuities (EXT-X-DISCONTINUITY), behind which clocks and codecs begin again")
        case "#EXT-X-GAP": refuse("some of its segments are missing (EXT-X-GAP)")
        case "#EXT-X-SKIP": refuse("it leaves segments out (EXT-X-SKIP)")
        case "#EXT-X-I-FRAMES-ONLY": refuse("it holds single pictures alone (EXT-X-I-FRAMES-ONLY)")
        case "#EXT-X-KEY": key(HLSAttributes(value))
        case "#EXT-X-MAP": initialisation(HLSAttributes(value))
        case "#EXT-X-DEFINE": refuse("it uses variables (EXT-X-DEFINE)")
        case "#EXT-X-STREAM-INF": stream = HLSAttributes(value)
        case "#EXT-X-MEDIA": rendition(HLSAttributes(value))
        default: break
        }
    }

    private mutating func key(_ attributes: HLSAttributes) {
        switch attributes["METHOD"] {
        case "NONE": cipher = .none
        case "AES-128" where attributes["KEYFORMAT"].map { $0 == "identity" } ?? true:
            guard let key = attributes["URI"].flatMap({ resolved($0) }) else {
                return refuse("a key of it has no http(s) URL (EXT-X-KEY)")
            }
            let vector = attributes["IV"].map { PieceList.InitialVector(hexadecimal: $0) }
            if let vector, vector == nil { return refuse("an initialisation vector of it is broken (EXT-X-KEY)") }
            cipher = .aes(key: key, vector ?? nil)
        case let method:
            refuse("it is encrypted with \(SafeName.make(Array((method ?? "no method").utf8.prefix(40)))), or by DRM")
        }
    }

    private mutating func initialisation(_ attributes: HLSAttributes) {
        guard let url = attributes["URI"].flatMap({ resolved($0) }) else {
            return refuse("its initialisation has no http(s) URL (EXT-X-MAP)")
        }
        var range: ByteRange?
        if let text = attributes["BYTERANGE"] {
            // Without an offset it begins with the resource (RFC 8216, section 4.3.2.5).
            range = byteRange(Array(text.utf8)[...], after: 0)
            if range == nil { return refuse("a byte range of it is broken (EXT-X-MAP)") }
        }
        var found: PieceList.Cipher?
        if case .aes(let key, let vector) = cipher {
            guard let vector else { return refuse("its encrypted initialisation has no vector (EXT-X-MAP)") }
            found = PieceList.Cipher(key: key, initialVector: vector)
        }
        let piece = PieceList.Piece(url: url, range: range, cipher: found)
        if let map {
            if map != piece { refuse("its initialisation changes on the way (EXT-X-MAP)") }
            return
        }
        map = piece
        if segments > 0 { return refuse("its initialisation comes late (EXT-X-MAP)") }
        add(piece)
    }

    private mutating func rendition(_ attributes: HLSAttributes) {
        guard attributes["TYPE"] == "AUDIO", let group = attributes["GROUP-ID"],
            sounds.count < HLSPlaylist.mostVariants, sounds[group]?.count ?? 0 < HLSPlaylist.mostVariants
        else { return }
        sounds[group, default: []].append(attributes["URI"].flatMap { resolved($0) })
    }

    // MARK: Locations

    mutating func location(_ text: String) {
        if let stream {
            self.stream = nil
            return variant(text, stream)
        }
        guard isMedia else { return }
        let subrange = self.subrange
        defer {
            self.subrange = nil
            segments += 1
            sequence &+= 1
        }
        guard playlist.obstacle == nil else { return }
        guard let url = resolved(text) else { return refuse("a segment of it has no http(s) URL") }
        var range: ByteRange?
        if let subrange {
            let start = last?.url == url ? last?.end : nil
            range = byteRange(subrange, after: start)
            guard let range, !range.isEmpty else { return refuse("a byte range of it is broken (EXT-X-BYTERANGE)") }
            last = (url, range.upper)
        } else {
            last = nil
        }
        if segments == 0 { setExtension(url) }
        var found: PieceList.Cipher?
        if case .aes(let key, let vector) = cipher {
            let number = PieceList.InitialVector(high: 0, low: UInt64(bitPattern: sequence))
            found = PieceList.Cipher(key: key, initialVector: vector ?? number)
        }
        add(PieceList.Piece(url: url, range: range, cipher: found))
    }

    private mutating func setExtension(_ url: ResourceURL) {
        let suffix = url.fileExtension
        if map != nil {
            playlist.fileExtension = "mp4"
        } else if ["aac", "mp3", "ac3", "ec3"].contains(suffix) {
            playlist.fileExtension = suffix
        } else if ["vtt", "webvtt", "srt"].contains(suffix) {
            refuse("it holds subtitles")
        } else if ["mp4", "m4s", "m4v", "m4a", "cmfv", "cmfa"].contains(suffix) {
            refuse("its fragments have no initialisation (EXT-X-MAP)")
        }
    }

    private mutating func add(_ piece: PieceList.Piece) {
        guard playlist.obstacle == nil else { return }
        if let joined = playlist.pieces.last?.joined(with: piece) {
            playlist.pieces[playlist.pieces.count - 1] = joined
        } else if playlist.pieces.count < HLSPlaylist.mostPieces {
            playlist.pieces.append(piece)
        } else {
            refuse("it has more than \(HLSPlaylist.mostPieces) segments")
        }
    }

    private mutating func variant(_ text: String, _ attributes: HLSAttributes) {
        guard playlist.variants.count < HLSPlaylist.mostVariants, let url = resolved(text),
            known.insert(url.text).inserted
        else { return }
        var words: [String] = []
        if let resolution = attributes["RESOLUTION"] { words.append(resolution) }
        if let rate = attributes.number("BANDWIDTH") { words.append("\(rate / 1000)k") }
        let title = words.isEmpty ? "variant \(playlist.variants.count + 1)" : words.joined(separator: " ")
        playlist.variants.append(HLSPlaylist.Variant(url: url, title: title, hasSeparateSound: false))
        soundGroups.append(attributes["AUDIO"])
    }

    // MARK: The end

    consuming func end() throws(SourceRefusal) -> HLSPlaylist {
        guard playlist.variants.isEmpty else {
            // Addresses with variables in them are none.
            if playlist.obstacle != nil {
                playlist.variants = []
                return playlist
            }
            // A rendition may stand behind the variants that use it.
            playlist.variants = zip(playlist.variants, soundGroups).map { variant, group in
                let places = group.flatMap { sounds[$0] } ?? []
                let isWithin = places.isEmpty || places.contains { $0 == nil || $0 == variant.url }
                return HLSPlaylist.Variant(url: variant.url, title: variant.title, hasSeparateSound: !isWithin)
            }
            playlist.pieces = []
            return playlist
        }
        guard isMedia else { throw .useless("the HLS playlist names nothing that can be fetched") }
        playlist.isGrowing = !hasEnd
        if !hasEnd, !mayGrow { playlist.obstacle = "it is live: it has no end (EXT-X-ENDLIST)" }
        if segments == 0 { refuse("it names no segments") }
        if playlist.obstacle != nil { playlist.pieces = [] }
        return playlist
    }

    // MARK: Values

    /// The URL of a reference, without the signature in its query, which is remembered. One that stands for a joined
    /// file is none: files that are made of themselves have no end.
    private mutating func resolved(_ text: String) -> ResourceURL? {
        guard let url = base.map({ $0.resolve(text) }) ?? ResourceURL(text),
            ![HLSSource.mark, HLSSource.localMark].contains(where: url.path.hasSuffix)
        else { return nil }
        if base == nil { playlist.namedOrigins.insert(url.origin) }
        guard let split = QuerySignature.split(url) else { return url }
        playlist.signatures[split.url.text] = split.signature
        return split.url
    }

    /// `length@offset`. - Parameter start: the offset where none is given, nil if it has to be.
    private func byteRange(_ text: ArraySlice<UInt8>, after start: Int64?) -> ByteRange? {
        var cursor = ByteCursor(trimmedBytes(text))
        guard let length = cursor.number() else { return nil }
        let offset = cursor.take(UInt8(ascii: "@")) ? cursor.number() : start
        guard cursor.isAtEnd, let offset else { return nil }
        let (end, isTooMuch) = offset.addingReportingOverflow(length)
        return isTooMuch ? nil : ByteRange(offset, end)
    }
}

extension PieceList.InitialVector {
    /// `0x` and up to 32 digits.
    init?(hexadecimal text: String) {
        let digits = text.utf8.dropFirst(2)
        guard text.utf8.count <= 34, !digits.isEmpty, ["0x", "0X"].contains(text.prefix(2)),
            digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
        else { return nil }
        let padded = String(repeating: "0", count: 32 - digits.count) + String(decoding: digits, as: UTF8.self)
        guard let high = UInt64(padded.prefix(16), radix: 16), let low = UInt64(padded.suffix(16), radix: 16) else {
            return nil
        }
        self.init(high: high, low: low)
    }
}
