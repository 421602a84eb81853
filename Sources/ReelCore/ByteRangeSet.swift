/// Bytes as few sorted ranges that neither touch nor overlap.
package struct ByteRangeSet: Hashable, Sendable {
    package private(set) var ranges: [ByteRange] = []
    /// Bytes in all of them.
    package private(set) var count: Int64 = 0

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
            count -= ranges[last].count
            last += 1
        }
        count += merged.count
        ranges.replaceSubrange(first..<last, with: CollectionOfOne(merged))
    }

    /// Allocates only where it cuts a range in two.
    package mutating func remove(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        var index = firstIndex(endingAtOrBehind: range.lower + 1)
        while index < ranges.count, ranges[index].lower < range.upper {
            let old = ranges[index]
            count -= min(old.upper, range.upper) - max(old.lower, range.lower)
            if old.lower < range.lower {
                ranges[index].upper = range.lower
                if range.upper < old.upper { ranges.insert(ByteRange(range.upper, old.upper), at: index + 1) }
                index += 1
            } else if range.upper < old.upper {
                ranges[index].lower = range.upper
                return
            } else {
                ranges.remove(at: index)
            }
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
