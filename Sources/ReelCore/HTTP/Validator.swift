/// An entity tag (RFC 9110, section 8.8.3): the text in the quotes, and whether it is weak.
///
/// Compared byte by byte: two spellings of one letter are two versions.
package struct EntityTag: Hashable, Sendable {
    /// Whether it began with `W/`.
    package var isWeak: Bool
    /// The text in the quotes.
    package var opaque: String

    /// Bytes. Each version keeps its tag, and each request sends it; real ones have up to a hundred bytes.
    private static let longest = 1 << 10

    /// Reads `"tag"` or `W/"tag"`; a tag without quotes, as some servers send it, is taken whole as a strong one. nil
    /// where it is empty, cannot stand in a header, or has more than 1 KiB.
    package init?(_ value: String) { self.init(Array(value.utf8)[...]) }

    /// Like that for a `String`.
    package init?(_ value: ArraySlice<UInt8>) {
        var text = trimmedBytes(value)
        isWeak = text.starts(with: "W/".utf8) || text.starts(with: "w/".utf8)
        if isWeak { text = text.dropFirst(2) }
        if text.count >= 2, text.first == 0x22, text.last == 0x22 { text = text.dropFirst().dropLast() }
        guard (1...Self.longest).contains(text.count), text.allSatisfy({ $0 > 0x20 && $0 != 0x22 && $0 != 0x7F })
        else { return nil }
        opaque = String(decoding: text, as: UTF8.self)
    }

    /// Whether both have the same bytes, and are both weak or both strong.
    package static func == (one: EntityTag, other: EntityTag) -> Bool {
        one.isWeak == other.isWeak && one.isSame(as: other)
    }

    /// Whether both are of one version, weak or strong.
    package func isSame(as other: EntityTag) -> Bool { opaque.utf8.elementsEqual(other.opaque.utf8) }

    /// The form that `If-Range` and `If-None-Match` take.
    package var header: String { (isWeak ? "W/" : "") + "\"\(opaque)\"" }
}

/// Shows whether two answers are of the same version of a resource.
package struct Validator: Hashable, Sendable {
    /// nil where the answer had none.
    package var entityTag: EntityTag?
    /// Seconds since 1970.
    package var lastModified: Int64?
    /// The mirror whose bytes the version has, as long as the source has not proven them; 0 for a version of the
    /// source. What two origins have under one tag and one date may differ, so these are two versions.
    package var mirror: Int64

    /// - Parameter lastModified: seconds since 1970.
    package init(entityTag: EntityTag?, lastModified: Int64?, mirror: Int64 = 0) {
        self.entityTag = entityTag
        self.lastModified = lastModified
        self.mirror = mirror
    }

    /// The same tag and date of the version that this mirror has; of the source's, where it is 0.
    package func at(mirror: Int64) -> Validator {
        Validator(entityTag: entityTag, lastModified: lastModified, mirror: mirror)
    }

    /// Whether both may be of the same version of one origin: by tag where both have one (a weak tag that later turns
    /// strong is the same, as Apache does with fresh files), else by date where both have one, else true. The caller
    /// compares the length.
    package func agrees(with other: Validator) -> Bool {
        if mirror != other.mirror { return false }
        if let mine = entityTag, let theirs = other.entityTag { return mine.isSame(as: theirs) }
        if let mine = lastModified, let theirs = other.lastModified { return mine == theirs }
        return true
    }

    /// How well it fits a wanted one, up to `bestFit`: the tag counts before the date; nil where they disagree.
    package func fit(_ wanted: Validator) -> Int? {
        guard agrees(with: wanted) else { return nil }
        let sameTag = entityTag != nil && entityTag?.opaque == wanted.entityTag?.opaque
        let sameDate = lastModified == wanted.lastModified
        return (sameTag ? 4 : 0) + (sameDate ? 2 : 0) + (self == wanted ? 1 : 0)
    }

    package static let bestFit = 7

    /// The value of `If-Range`: a strong tag, or a date where there is no tag; nil where neither fits.
    package var ifRange: String? {
        if let entityTag { return entityTag.isWeak ? nil : entityTag.header }
        return lastModified.map { httpDateText($0) }
    }

    /// The condition of a request that wants 304 when nothing changed; nil where there is nothing to compare.
    package var ifChanged: OriginRequest.Condition? {
        guard entityTag != nil || lastModified != nil else { return nil }
        return .ifChanged(entityTag: entityTag?.header, lastModified: lastModified.map { httpDateText($0) })
    }
}

/// The facts that the first answer gives of a resource.
package struct ContentInformation: Hashable, Sendable {
    /// Whole length in bytes; nil for a resource that does not say.
    package var length: Int64?
    /// The validator of the version in the answer.
    package var validator: Validator
    /// `type/subtype`, in lower case.
    package var mediaType: String?
    /// False once the origin has answered a range with the whole body.
    package var acceptsRanges: Bool

    /// - Parameter length: bytes; nil where it is not known.
    package init(length: Int64?, validator: Validator, mediaType: String? = nil, acceptsRanges: Bool = true) {
        self.length = length
        self.validator = validator
        self.mediaType = mediaType
        self.acceptsRanges = acceptsRanges
    }

    /// Whether length and validator agree.
    package func isSameVersion(as other: ContentInformation) -> Bool {
        length == other.length && validator.agrees(with: other.validator)
    }

    /// Whether length and validator agree, whichever origin has it.
    package func looksLike(_ other: ContentInformation) -> Bool {
        length == other.length && validator.at(mirror: other.validator.mirror).agrees(with: other.validator)
    }
}
