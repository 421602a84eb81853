import FoundationEssentials
import ReelCore

// The one file of the module that needs Foundation's essentials: its JSON decoder, which the binary carries anyway.

private struct Item: Decodable {
    var name: String
    var type: String
    var mtime: String?
    var size: Int64?
}

/// The first of 128 private-use scalars, one for each byte that can be part of broken UTF-8. nginx writes such names as
/// they are, where JSON should be UTF-8: its bytes pass the decoder in disguise.
private let disguise: UInt32 = 0x10_FF00

/// The array that nginx's `autoindex_format json` writes: name, type, mtime (an HTTP date) and size (exact).
func parseJSON(
    _ body: [UInt8], _ directory: ListingDirectory, limit: Int
) throws(ListingError) -> ListingMerge {
    let repaired = repairedUTF8(body) { byte, result in
        result.append(contentsOf: String(Unicode.Scalar(disguise + UInt32(byte & 0x7F))!).utf8)
    }
    guard let items = try? JSONDecoder().decode([Item].self, from: Data(repaired ?? body)) else { throw .malformed }
    var entries = ListingMerge(limit: limit)
    for item in items where item.type == "directory" || item.type == "file" {
        let isDirectory = item.type == "directory"
        let name = repaired == nil ? Array(item.name.utf8) : undisguised(item.name)
        if name.isEmpty || name == [0x2E] || name == [0x2E, 0x2E] { continue }
        var segment: [UInt8] = []
        for byte in name {
            if isSegmentByte(byte) { segment.append(byte) } else { appendEscape(of: byte, to: &segment) }
        }
        var facts = ListingFacts()
        facts.length = item.size.flatMap { $0 >= 0 ? $0 : nil }
        facts.modified = item.mtime.flatMap { httpDate($0) }
        let url = directory.child(segment[...], isDirectory)
        entries.add(ListingLink(name: name, isDirectory: isDirectory, url: url), facts)
        if entries.isTooLarge { throw .tooLarge }
    }
    return entries
}

private func undisguised(_ name: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for scalar in name.unicodeScalars {
        if scalar.value >= disguise, scalar.value < disguise + 0x80 {
            bytes.append(UInt8(scalar.value - disguise) | 0x80)
        } else {
            bytes.append(contentsOf: String(scalar).utf8)
        }
    }
    return bytes
}
