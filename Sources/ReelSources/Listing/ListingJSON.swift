import ReelCore

/// The array that nginx's `autoindex_format json` writes: name, type, mtime (an HTTP date) and size (exact).
///
/// nginx writes names that are no UTF-8 as they are, which JSON is not.
func parseJSON(
    _ body: ArraySlice<UInt8>, _ directory: ListingDirectory, limit: Int, _ stop: StopCheck
) throws(SourceRefusal) -> ListingMerge {
    var entries = ListingMerge(of: directory.url, limit: limit)
    var reader = JSONReader(body)
    var stop = stop
    try reader.array { (reader) throws(SourceRefusal) in
        if stop.step() { throw .stopped }
        guard let item = try reader.item(), !item.name.isEmpty, item.name != [0x2E], item.name != [0x2E, 0x2E],
            let link = directory.child(encodedSegment(item.name[...])[...], item.name, item.isDirectory)
        else { return }
        entries.add(link, item.facts)
        if entries.isTooLarge { throw .tooManyEntries }
    }
    try reader.finish()
    return entries
}

extension JSONReader {
    /// nil for what is neither a file nor a directory.
    fileprivate mutating func item() throws(SourceRefusal) -> (
        name: [UInt8], isDirectory: Bool, facts: ListingFacts
    )? {
        var (name, type, facts) = (Value.nested, Value.nested, ListingFacts())
        try object { (reader, key) throws(SourceRefusal) in
            let value = try reader.value()
            switch key {
            case "name": name = value
            case "type": type = value
            case "mtime":
                if case .text(let text) = value { facts.modified = httpDate(text[...]) }
            case "size": facts.length = try value.length()
            default: break
            }
        }
        let kind = try type.text()
        let isDirectory = kind.elementsEqual("directory".utf8)
        let item = (try name.text(), isDirectory, facts)
        return isDirectory || kind.elementsEqual("file".utf8) ? item : nil
    }
}
