/// Music whose pictures stand in front of it: the tags of mp3, FLAC's metadata blocks.
extension Container {
    /// ID3v2, which gives its own length (id3.org, "ID3 tag version 2.4.0", section 3.1); the audio comes behind it.
    static func taggedAudio(_ file: FileBytes) -> Answer {
        guard file.has("ID3", at: 0) else { return .foreign }
        guard let flags = file[5], let coded = file.big(6, 4) else { return .needsMore }
        // Seven bits a byte; a footer has ten bytes as the header has.
        guard coded & 0x8080_8080 == 0 else { return .foreign }
        let count = coded & 0x7F | coded >> 1 & 0x3F80 | coded >> 2 & 0x1F_C000 | coded >> 3 & 0xFE0_0000
        var layout = Layout()
        layout.front = file.end(0, 10 + count + (flags & 0x10 == 0 ? 0 : 10))
        layout.opening = [ByteRange(0, file.samples(behind: layout.front))]
        // Older tags stand at the end.
        layout.opening += Readahead.tail(of: file.length).map { [$0] } ?? []
        return .found(layout)
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
