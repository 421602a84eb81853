/// mp4 and mov: boxes, each with its length and four letters (ISO/IEC 14496-12, section 4.2).
extension Container {
    /// Finds the index (`moov`), in front of the media data or behind it.
    static func mp4(_ file: FileBytes) -> Answer {
        let first = ["ftyp", "moov", "mdat", "wide", "free", "skip", "pnot", "styp"] as [StaticString]
        guard first.contains(where: { file.has($0, at: 4) }) else { return .foreign }
        var layout = Layout()
        var offset: Int64 = 0
        while offset < file.length {
            guard offset < file.count else {
                // Behind the media data: what stands there is read next, and is the index as a rule.
                layout.opening.append(file.rest(from: offset))
                return .found(layout)
            }
            guard let box = box(file, at: offset) else { return .needsMore }
            guard box.end > offset + 7 else { return .foreign }
            if file.has("moov", at: offset + 4) {
                // The movie's own head is its first box.
                guard file.count >= min(box.end, box.body + 128) else { return .needsMore }
                layout.front = box.end
                layout.opening.append(ByteRange(offset, file.samples(behind: box.end)))
                layout.seconds = movieSeconds(file, in: ByteRange(box.body, min(box.end, file.count)))
                return .found(layout)
            }
            offset = box.end
        }
        return .found(layout)
    }

    private static func box(_ file: FileBytes, at offset: Int64) -> (body: Int64, end: Int64)? {
        guard let short = file.big(offset, 4) else { return nil }
        switch short {
        case 0: return (offset + 8, file.length)
        case 1:
            guard let long = file.big(offset + 8, 8) else { return nil }
            return (offset + 16, long < 16 ? offset : file.end(offset, long))
        default: return (offset + 8, short < 8 ? offset : file.end(offset, short))
        }
    }

    /// The duration in the head of the movie (`mvhd`).
    private static func movieSeconds(_ file: FileBytes, in movie: ByteRange) -> Double? {
        var offset = movie.lower
        while offset < movie.upper, let box = box(file, at: offset), box.end > offset {
            if file.has("mvhd", at: offset + 4) {
                let isLong = file[box.body] == 1
                let place = box.body + (isLong ? 20 : 12)
                guard let scale = file.big(place, 4), scale > 0, let count = file.big(place + 4, isLong ? 8 : 4),
                    count != (isLong ? .max : 0xFFFF_FFFF)
                else { return nil }
                return Double(count) / Double(scale)
            }
            offset = box.end
        }
        return nil
    }
}
