import Glibc

/// Whether both have the same bytes. The standard library's own, generic and not optimised here, calls a function for
/// each byte, which took two fifths of the tests' time.
package func == (left: [UInt8], right: [UInt8]) -> Bool {
    left.count == right.count
        && left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                left.isEmpty || memcmp(left.baseAddress!, right.baseAddress!, left.count) == 0
            }
        }
}

/// The same of two parts of lists.
package func == (left: ArraySlice<UInt8>, right: ArraySlice<UInt8>) -> Bool { Array(left) == Array(right) }
