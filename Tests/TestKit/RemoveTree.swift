import Glibc

/// Only what this process made: directories are entered, links are not followed.
package func removeTree(_ path: String) {
    if let stream = opendir(path) {
        while let entry = readdir(stream) {
            let name = entryName(entry)
            if name == "." || name == ".." { continue }
            if entry.pointee.d_type == UInt8(DT_DIR) {
                removeTree(path + "/" + name)
            } else {
                // A file's name need not be UTF-8.
                withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { _ = unlinkat(dirfd(stream), $0, 0) }
                }
            }
        }
        closedir(stream)
    }
    rmdir(path)
}

/// What a directory has, sorted; nothing where it cannot be read.
package func entryNames(in path: String) -> [String] {
    guard let stream = opendir(path) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) { names.append(entryName(entry)) }
    return names.filter { $0 != "." && $0 != ".." }.sorted()
}

/// The plain files below a directory, links not followed.
package func files(below path: String) -> [String] {
    guard let stream = opendir(path) else { return [] }
    defer { closedir(stream) }
    var found: [String] = []
    while let entry = readdir(stream) {
        let name = entryName(entry)
        if name == "." || name == ".." { continue }
        if entry.pointee.d_type == UInt8(DT_DIR) {
            found += files(below: path + "/" + name)
        } else if entry.pointee.d_type == UInt8(DT_REG) {
            found.append(path + "/" + name)
        }
    }
    return found
}

private func entryName(_ entry: UnsafeMutablePointer<dirent>) -> String {
    withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
}
