/// Bytes as few sorted ranges that neither touch nor overlap.
package struct ByteRangeSet: Hashable, Sendable {
    package private(set) var ranges: [ByteRange] = []

    package init() {}

    package var isEmpty: Bool { ranges.isEmpty }

    /// Index of the first range that ends at or behind `offset`.
    private func firstIndex(endingAtOrBehind offset: Int64) -> Int {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upper < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }

    package mutating func insert(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        let first = firstIndex(endingAtOrBehind: range.lower)
        var merged = range
        var last = first
        while last < ranges.count, ranges[last].lower <= range.upper {
            merged.lower = min(merged.lower, ranges[last].lower)
            merged.upper = max(merged.upper, ranges[last].upper)
            last += 1
        }
        ranges.replaceSubrange(first..<last, with: CollectionOfOne(merged))
    }

    package mutating func remove(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        var index = firstIndex(endingAtOrBehind: range.lower + 1)
        while index < ranges.count, ranges[index].lower < range.upper {
            let old = ranges[index]
            var kept: [ByteRange] = []
            if old.lower < range.lower { kept.append(ByteRange(old.lower, range.lower)) }
            if range.upper < old.upper { kept.append(ByteRange(range.upper, old.upper)) }
            ranges.replaceSubrange(index...index, with: kept)
            index += kept.count
        }
    }

    package func contains(_ range: ByteRange) -> Bool {
        if range.isEmpty { return true }
        let index = firstIndex(endingAtOrBehind: range.lower + 1)
        return index < ranges.count && ranges[index].contains(range)
    }

    /// The range that holds `offset`.
    package func range(at offset: Int64) -> ByteRange? {
        let index = firstIndex(endingAtOrBehind: offset + 1)
        return index < ranges.count && ranges[index].contains(offset) ? ranges[index] : nil
    }

    /// The first range that ends behind `offset`.
    package func firstRange(endingBehind offset: Int64) -> ByteRange? {
        let index = firstIndex(endingAtOrBehind: offset + 1)
        return index < ranges.count ? ranges[index] : nil
    }

    package func overlaps(_ range: ByteRange) -> Bool {
        firstRange(endingBehind: range.lower).map { $0.overlaps(range) } ?? false
    }
}
