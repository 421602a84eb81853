import Glibc

/// Only what this process made: directories are entered, links are not followed.
package func removeTree(_ path: String) {
    if let stream = opendir(path) {
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name == "." || name == ".." { continue }
            if entry.pointee.d_type == UInt8(DT_DIR) {
                removeTree(path + "/" + name)
            } else {
                unlink(path + "/" + name)
            }
        }
        closedir(stream)
    }
    rmdir(path)
}
