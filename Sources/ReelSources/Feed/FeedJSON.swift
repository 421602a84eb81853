import ReelCore

/// JSON Feed (jsonfeed.org, version 1.1): titles, dates and attachments of its items.
/// - Returns: `next_url`, where the feed continues.
func readJSONFeed(
    _ document: ArraySlice<UInt8>, _ feed: inout FeedEntries, _ stop: StopCheck
) throws(SourceRefusal) -> String? {
    var reader = JSONReader(document, mendsTexts: true)
    var stop = stop
    var next: String?
    var icon: String?
    // Given away while it is filled: two owners would copy all entries for each page.
    var entries = FeedEntries()
    swap(&entries, &feed)
    try reader.object { (reader, name) throws(SourceRefusal) in
        switch name {
        case "next_url": next = try reader.optionalText()
        case "icon": icon = try reader.optionalText()
        case "items" where reader.isNext("["):
            try reader.array { (reader) throws(SourceRefusal) in
                if stop.step() { throw .stopped }
                try entries.add(try reader.feedItem())
            }
        default: _ = try reader.value()
        }
    }
    try reader.finish()
    if let icon { entries.take(cover: icon) }
    swap(&entries, &feed)
    return next
}

extension JSONReader {
    /// A text; nil for an empty one, and for any other value, which is skipped.
    fileprivate mutating func optionalText() throws(SourceRefusal) -> String? {
        guard case .text(let text) = try value() else { return nil }
        let trimmed = trimmedBytes(text[...])
        return trimmed.isEmpty ? nil : String(decoding: trimmed, as: UTF8.self)
    }

    fileprivate mutating func feedItem() throws(SourceRefusal) -> FeedItem {
        var item = FeedItem()
        guard isNext("{") else {
            _ = try value()
            return item
        }
        try object { (reader, name) throws(SourceRefusal) in
            switch name {
            case "title": item.title = try reader.optionalText() ?? ""
            case "date_published": item.published = try reader.optionalText().flatMap(feedDate)
            case "date_modified": item.updated = try reader.optionalText().flatMap(feedDate)
            case "attachments" where reader.isNext("["):
                try reader.array { (reader) throws(SourceRefusal) in
                    if let media = try reader.attachment() { item.add(media) }
                }
            default: _ = try reader.value()
            }
        }
        return item
    }

    private mutating func attachment() throws(SourceRefusal) -> FeedMedia? {
        guard isNext("{") else {
            _ = try value()
            return nil
        }
        var (url, type): (String?, String?)
        try object { (reader, name) throws(SourceRefusal) in
            switch name {
            case "url": url = try reader.optionalText()
            case "mime_type": type = try reader.optionalText()
            default: _ = try reader.value()
            }
        }
        return url.map { FeedMedia($0, type: type) }
    }
}
