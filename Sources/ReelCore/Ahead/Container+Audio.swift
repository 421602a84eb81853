/// Music: mp3 and the tags in front of it, FLAC's metadata blocks, Ogg's pages.
extension Container {
    /// ID3v2, which tells its own length (id3.org, "ID3 tag version 2.4.0", section 3.1); the audio comes behind it.
    static func taggedAudio(_ file: FileBytes) -> Answer {
        guard file.has("ID3", at: 0) else { return .foreign }
        guard let flags = file[5], let coded = file.big(6, 4) else { return .needsMore }
        // Seven bits a byte; a footer has ten bytes as the header has.
        guard coded & 0x8080_8080 == 0 else { return .foreign }
        let count = coded & 0x7F | coded >> 1 & 0x3F80 | coded >> 2 & 0x1F_C000 | coded >> 3 & 0xFE0_0000
        var layout = Layout()
        layout.front = file.end(0, 10 + count + (flags & 0x10 == 0 ? 0 : 10))
        layout.seconds = mp3Seconds(file, from: layout.front)
        layout.opening = [ByteRange(0, file.samples(behind: layout.front))]
        // Older tags stand at the end.
        layout.opening += Readahead.tail(of: file.length).map { [$0] } ?? []
        return .found(layout)
    }

    /// mp3 without a tag in front: two frames in a row that fit together.
    static func mp3(_ file: FileBytes) -> Answer {
        guard let first = Frame(file, at: 0) else { return .foreign }
        guard file.count >= first.count + 4 else { return .needsMore }
        guard let second = Frame(file, at: first.count), second.rate == first.rate else { return .foreign }
        var layout = Layout()
        layout.seconds = mp3Seconds(file, from: 0)
        layout.opening = Readahead.tail(of: file.length).map { [$0] } ?? []
        return .found(layout)
    }

    /// A frame of MPEG audio, layer III (ISO/IEC 11172-3, section 2.4.2.3, and 13818-3).
    private struct Frame {
        /// Bytes.
        let count: Int64
        /// Samples, and how many of them there are in a second.
        let (samples, rate): (Int64, Int64)
        let bitsPerSecond: Int64
        /// Where the tables of its encoder begin, behind its head and what it needs to be decoded.
        let tables: Int64

        private static let rates: [Int64] = [44_100, 48_000, 32_000]
        /// In kbit/s, of MPEG-1 and of the two with lower sample rates.
        private static let bitRates: [[Int64]] = [
            [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
            [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
        ]

        /// nil where no such frame is at hand. Frames of a rate that only their distance tells are none.
        init?(_ file: FileBytes, at offset: Int64) {
            // The mark (11 bits), version (2), layer (2), 1 bit, bit rate (4), sample rate (2), padding (1), 1 bit,
            // channels (2).
            guard let head = file.big(offset, 4), head >> 21 == 0x7FF, head >> 17 & 3 == 1 else { return nil }
            let (version, bits, hertz) = (head >> 19 & 3, head >> 12 & 15, head >> 10 & 3)
            guard version != 1, (1...14).contains(bits), hertz < 3 else { return nil }
            let (isFirst, isMono) = (version == 3, head >> 6 & 3 == 3)
            samples = isFirst ? 1152 : 576
            rate = Self.rates[Int(hertz)] >> (isFirst ? 0 : version == 2 ? 1 : 2)
            bitsPerSecond = 1000 * Self.bitRates[isFirst ? 0 : 1][Int(bits) - 1]
            count = samples / 8 * bitsPerSecond / rate + head >> 9 & 1
            tables = offset + 4 + (isFirst ? (isMono ? 17 : 32) : (isMono ? 9 : 17))
        }
    }

    /// The playing time of frames that begin at `start`, from the table in the first one (Xing's, Fraunhofer's), or
    /// from their length where all that are at hand have one rate.
    private static func mp3Seconds(_ file: FileBytes, from start: Int64) -> Double? {
        guard let first = Frame(file, at: start) else { return nil }
        func seconds(_ frames: Int64) -> Double { Double(frames) * Double(first.samples) / Double(first.rate) }
        if file.has("Xing", at: first.tables) || file.has("Info", at: first.tables) {
            guard let flags = file.big(first.tables + 4, 4), flags & 1 == 1 else { return nil }
            return file.big(first.tables + 8, 4).map(seconds)
        }
        if file.has("VBRI", at: start + 36) { return file.big(start + 50, 4).map(seconds) }
        var offset = start + first.count
        while let next = Frame(file, at: offset) {
            guard next.bitsPerSecond == first.bitsPerSecond, next.rate == first.rate else { return nil }
            offset += next.count
        }
        guard offset > start + first.count else { return nil }
        return Double(file.length - start) * 8 / Double(first.bitsPerSecond)
    }

    /// FLAC: metadata blocks, each with its length (RFC 9639, section 8), the first with rate and number of samples.
    static func flac(_ file: FileBytes) -> Answer {
        guard file.has("fLaC", at: 0) else { return .foreign }
        guard let rate = file.big(18, 3), let samples = file.big(21, 5) else { return .needsMore }
        var layout = Layout()
        if rate >> 4 > 0 { layout.seconds = Double(samples & 0xF_FFFF_FFFF) / Double(rate >> 4) }
        var offset: Int64 = 4
        // Each block has four bytes at least.
        while let head = file.big(offset, 4) {
            offset = file.end(offset, 4 + head & 0xFF_FFFF)
            if head >> 31 == 1 { break }
        }
        layout.front = offset
        layout.opening = [ByteRange(0, file.samples(behind: offset))]
        return .found(layout)
    }

    /// Ogg (RFC 3533, section 6): how long it plays stands in its last page.
    static func ogg(_ file: FileBytes, tail: [UInt8]) -> Answer {
        guard file.has("OggS", at: 0) else { return .foreign }
        guard let segments = file[26].map({ Int64($0) }), let serial = file.big(14, 4) else { return .needsMore }
        let packet = 27 + segments
        var layout = Layout()
        layout.front = packet
        layout.opening = [ByteRange(file.length - min(file.length, mostTail), file.length)]
        let rate: Int64?
        // RFC 7845, section 5.1, and the Vorbis I specification, section 4.2.2.
        if file.has("OpusHead", at: packet) {
            rate = 48_000
        } else {
            rate = file.has("\u{01}vorbis", at: packet) ? file.little(packet + 12, 4) : nil
        }
        if let rate, rate > 0, let samples = lastSample(tail, of: serial) {
            layout.seconds = Double(samples) / Double(rate)
        }
        return .found(layout)
    }

    private static func lastSample(_ tail: [UInt8], of serial: Int64) -> Int64? {
        let tail = FileBytes(tail, length: Int64(tail.count))
        var offset = tail.count - 27
        while offset >= 0 {
            // -1: no packet ends in this page.
            if tail[offset] == 0x4F, tail.has("OggS", at: offset), tail.big(offset + 14, 4) == serial,
                let samples = tail.little(offset + 6, 8), samples < .max
            {
                return samples
            }
            offset -= 1
        }
        return nil
    }
}

/// AVI: RIFF's chunks, of four letters and a length each, which is even.
extension Container {
    /// The index (`idx1`) stands behind the media data (`movi`).
    static func avi(_ file: FileBytes) -> Answer {
        guard file.has("RIFF", at: 0), file.has("AVI ", at: 8) else { return .foreign }
        guard let riff = file.little(4, 4) else { return .needsMore }
        var layout = Layout()
        var offset: Int64 = 12
        while offset < file.length {
            guard let count = file.little(offset + 4, 4) else { return .needsMore }
            let end = file.end(offset, 8 + count + count & 1)
            if file.has("avih", at: offset + 12) {
                let (time, frames) = (file.little(offset + 20, 4) ?? 0, file.little(offset + 36, 4) ?? 0)
                layout.seconds = Double(time) * Double(frames) / 1e6
            }
            if file.has("movi", at: offset + 8) {
                layout.front = offset
                let index = ByteRange(end, file.end(8, riff))
                layout.opening = [index.count <= mostBytes / 2 ? index : file.rest(from: end)]
                return .found(layout)
            }
            offset = end
        }
        return .found(layout)
    }
}
