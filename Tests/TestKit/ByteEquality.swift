import Glibc

/// Whether both have the same bytes. The standard library's own, generic and not optimised here, calls a function for
/// each byte, which took two fifths of the tests' time.
package func == (left: [UInt8], right: [UInt8]) -> Bool {
    left.withUnsafeBytes { left in right.withUnsafeBytes { isSame(left, $0) } }
}

private func isSame(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    left.count == right.count && (left.isEmpty || memcmp(left.baseAddress!, right.baseAddress!, left.count) == 0)
}

extension [UInt8] {
    package func elementsEqual(_ other: ArraySlice<UInt8>) -> Bool {
        withUnsafeBytes { bytes in other.withUnsafeBytes { isSame(bytes, $0) } }
    }

    package func elementsEqual(_ other: [UInt8]) -> Bool { self == other }

    /// Whether `part`, which is not empty, is somewhere in it.
    package func holds(_ part: [UInt8]) -> Bool { withUnsafeBytes { $0.holds(part) } }
}

extension UnsafeRawBufferPointer {
    package func elementsEqual(_ other: [UInt8]) -> Bool { other.withUnsafeBytes { isSame(self, $0) } }

    /// Like that of a list.
    package func holds(_ part: [UInt8]) -> Bool {
        var place = 0
        while place + part.count <= count,
            let found = memchr(baseAddress! + place, Int32(part[0]), count - place - part.count + 1)
        {
            if memcmp(found, part, part.count) == 0 { return true }
            place = UnsafeRawPointer(found) - baseAddress! + 1
        }
        return false
    }
}

package func != (left: [UInt8], right: [UInt8]) -> Bool { !(left == right) }

/// The same of what may not be there.
package func == (left: [UInt8]?, right: [UInt8]?) -> Bool {
    switch (left, right) {
    case (let left?, let right?): left == right
    case (nil, nil): true
    default: false
    }
}

/// The same of two parts of lists.
package func == (left: ArraySlice<UInt8>, right: ArraySlice<UInt8>) -> Bool { Array(left) == Array(right) }

/// The same of what a call gave.
package func == <Failure: Equatable>(left: Result<[UInt8], Failure>, right: Result<[UInt8], Failure>) -> Bool {
    switch (left, right) {
    case (.success(let left), .success(let right)): left == right
    case (.failure(let left), .failure(let right)): left == right
    default: false
    }
}
