/// Matroska and WebM: elements, each with an identifier and a length of one to eight bytes (RFC 8794 and RFC 9559).
extension Container {
    private enum ID {
        static let document: Int64 = 0x1A45_DFA3
        static let segment: Int64 = 0x1853_8067
        static let seekHead: Int64 = 0x114D_9B74
        static let seek: Int64 = 0x4DBB
        static let seekID: Int64 = 0x53AB
        static let seekPosition: Int64 = 0x53AC
        static let information: Int64 = 0x1549_A966
        static let timestampScale: Int64 = 0x2A_D7B1
        static let duration: Int64 = 0x4489
        static let cluster: Int64 = 0x1F43_B675
        static let cues: Int64 = 0x1C53_BB6B
    }

    private struct Element {
        let id: Int64
        let body: Int64
        let end: Int64
    }

    /// Finds what the table in front (`SeekHead`) names: programs read all of it but the `Cues` when they open the
    /// file, and these when they seek.
    static func matroska(_ file: FileBytes) -> Answer {
        guard file.big(0, 4) == ID.document else { return .foreign }
        guard let document = element(file, at: 0), let segment = element(file, at: document.end) else {
            return document(file)
        }
        guard segment.id == ID.segment else { return .foreign }
        var layout = Layout()
        var places: [(id: Int64, offset: Int64)] = []
        var offset = segment.body
        // Each element has two bytes at least.
        while offset < segment.end {
            guard let element = element(file, at: offset), element.id != ID.cluster else { break }
            switch element.id {
            case ID.seekHead where places.isEmpty: places = seeks(file, in: element, from: segment.body)
            case ID.information where layout.seconds == nil: layout.seconds = informationSeconds(file, in: element)
            default: break
            }
            offset = element.end
            // Tags, pictures and fonts in front of the first cluster.
            layout.front = offset
        }
        if layout.front > file.count {
            layout.opening.append(ByteRange(file.count, file.samples(behind: layout.front)))
        }
        for place in places where place.offset >= max(offset, file.count) {
            if place.id == ID.cues {
                let next = places.map(\.offset).filter { $0 > place.offset }.min() ?? file.length
                layout.seeking.append(ByteRange(place.offset, next))
            } else {
                layout.opening.append(ByteRange(place.offset, file.end(place.offset, BlockSize.block)))
            }
        }
        return .found(layout)
    }

    /// The head of the segment is not at hand.
    private static func document(_ file: FileBytes) -> Answer {
        // A longer one than a header may be.
        guard let document = element(file, at: 0) else { return .needsMore }
        return document.end < mostHead ? .needsMore : .foreign
    }

    /// An element's head; nil where it is not at hand, or is none. One of unknown length ends with the file.
    private static func element(_ file: FileBytes, at offset: Int64) -> Element? {
        guard let first = file[offset], first >= 0x10 else { return nil }
        let idWidth = Int64(first.leadingZeroBitCount) + 1
        guard let id = file.big(offset, idWidth), let mark = file[offset + idWidth], mark > 0 else { return nil }
        let width = Int64(mark.leadingZeroBitCount) + 1
        guard let marked = file.big(offset + idWidth, width) else { return nil }
        let mask = Int64(1) << (7 * width) - 1
        let (count, body) = (marked & mask, offset + idWidth + width)
        return Element(id: id, body: body, end: count == mask ? file.length : file.end(body, count))
    }

    /// Calls `body` for each element in another one, as far as they are at hand.
    private static func visit(_ file: FileBytes, in parent: Element, _ body: (Element) -> Void) {
        var offset = parent.body
        while offset < parent.end, let element = element(file, at: offset) {
            body(element)
            offset = element.end
        }
    }

    private static func seeks(
        _ file: FileBytes, in table: Element, from start: Int64
    ) -> [(id: Int64, offset: Int64)] {
        var places: [(id: Int64, offset: Int64)] = []
        visit(file, in: table) { entry in
            guard entry.id == ID.seek, places.count < 4 * mostRanges else { return }
            var (id, position): (Int64?, Int64?)
            visit(file, in: entry) { element in
                let width = element.end - element.body
                guard (1...8).contains(width) else { return }
                if element.id == ID.seekID { id = file.big(element.body, width) }
                if element.id == ID.seekPosition { position = file.big(element.body, width) }
            }
            guard let id, let position, position < file.length - start else { return }
            places.append((id, start + position))
        }
        return places
    }

    private static func informationSeconds(_ file: FileBytes, in information: Element) -> Double? {
        var (nanoseconds, duration): (Double, Double?) = (1_000_000, nil)
        visit(file, in: information) { element in
            let width = element.end - element.body
            switch (element.id, width) {
            case (ID.timestampScale, 1...8):
                nanoseconds = file.big(element.body, width).map { Double($0) } ?? nanoseconds
            case (ID.duration, 4):
                duration = file.big(element.body, 4).map { Double(Float(bitPattern: UInt32($0))) }
            case (ID.duration, 8):
                // The highest bit is the sign: a number that has it is no duration.
                duration = file.big(element.body, 8).map { Double(bitPattern: UInt64($0)) }
            default: break
            }
        }
        return duration.map { $0 * nanoseconds / 1e9 }
    }
}
