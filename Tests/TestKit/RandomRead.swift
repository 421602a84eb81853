import ReelCore

/// What one handle has given, and which versions of its file that can be.
package struct RandomRead {
    package let file: Int
    /// Whether it was read to its end.
    package var isWhole = false
    private let origin: RandomOrigin
    /// nil until bytes have come.
    private var versions: [FileOrigin.Version]?
    /// What a film of HLS has given.
    private var film = RandomFilmRead()

    package init(_ file: Int, _ origin: RandomOrigin) { (self.file, self.origin) = (file, origin) }

    package var isNewest: Bool {
        if let film = origin.files[file].film { return self.film.isNewest(of: film) }
        let newest = origin.files[file].now
        return versions.map { $0.contains { $0.bytes == newest.bytes } } ?? (newest.length == 0)
    }

    /// - Returns: what is wrong with the bytes, nil if nothing.
    package mutating func take(_ bytes: ArraySlice<UInt8>, at offset: Int64) -> String? {
        if let film = origin.files[file].film {
            if self.film.take(bytes, at: offset, of: film) { return nil }
            return
                "\(bytes.count) bytes at \(offset) begin with those of \(RandomFilmRead.places(of: bytes, at: offset, in: film)), and the "
                + "handle had \(self.film.description): \(bytes.prefix(16))"
        }
        let all = origin.versions(of: file)
        let possible = versions ?? all
        let fitting = possible.filter { version in
            bytes.withUnsafeBytes { version.bytes.firstDifference(in: $0, from: offset) } == nil
        }
        versions = fitting.isEmpty ? possible : fitting
        if !fitting.isEmpty { return nil }
        let ends = possible.map { version in
            bytes.withUnsafeBytes { version.bytes.firstDifference(in: $0, from: offset) ?? -1 }
        }
        let others = all.indices.filter { index in
            bytes.withUnsafeBytes { all[index].bytes.firstDifference(in: $0, from: offset) } == nil
        }
        return "\(bytes.count) bytes at \(offset) are of no version that the handle had (\(possible.map(\.length)) "
            + "differ at \(ends.prefix(8))), but of versions \(others) of \(all.count): \(bytes.prefix(16))"
    }
}
