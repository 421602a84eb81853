/// A parser of what comes from outside, and what must hold of its result whatever comes.
struct FuzzTarget: Sendable {
    /// Also of its folder in `Corpus`.
    let name: String
    /// More seeds: files of other tests, by the end of their names.
    let pages: String?
    let run: @Sendable ([UInt8]) throws -> Void

    init(_ name: String, pages: String? = nil, _ run: @escaping @Sendable ([UInt8]) throws -> Void) {
        (self.name, self.pages, self.run) = (name, pages, run)
    }

    static let all = pages + texts + answers + words + index + served + files
}

/// A sentence about a result that must not be.
struct FuzzFinding: Error, CustomStringConvertible {
    var description: String
}

func require(_ holds: Bool, _ sentence: @autoclosure () -> String) throws(FuzzFinding) {
    if !holds { throw FuzzFinding(description: sentence()) }
}

/// Reads values off the front of an input; past its end all are zero.
struct FuzzBytes {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isEmpty: Bool { rest.isEmpty }
    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// One byte for the length, then the bytes.
    mutating func blob() -> [UInt8] { bytes(Int(byte())) }

    mutating func text() -> String { String(decoding: blob(), as: UTF8.self) }

    /// Often one of those at which arithmetic ends.
    mutating func number() -> Int64 {
        let kind = byte()
        switch kind & 7 {
        case 0: return 0
        case 1: return .max - Int64(kind >> 3)
        case 2: return .min + Int64(kind >> 3)
        case 3: return -1 - Int64(kind >> 3)
        case 4: return 1 << Int64(kind >> 3)
        case 5: return Int64(byte())
        default: return bytes(8).reduce(0) { $0 << 8 | Int64($1) }
        }
    }
}
