import Glibc

/// The directory that holds `Package.swift`.
package let repository = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }

/// A program of this package: it stands beside the test bundle.
package func builtProgram(_ name: String) -> String {
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &bytes, bytes.count - 1)
    let path = String(decoding: bytes[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return path[..<(path.lastIndex(of: "/") ?? path.startIndex)] + "/" + name
}
