import Glibc
import ReelCore

/// Bytes of the file's range that the page cache holds. mincore(2) shows them to a program that may write to the file.
package func residentBytes(_ path: String, _ range: ByteRange) -> Int64 {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return -1 }
    defer { close(file) }
    let length = Int(range.count)
    guard let mapping = mmap(nil, length, PROT_READ, MAP_SHARED, file, off_t(range.lower)), mapping != MAP_FAILED else {
        return -1
    }
    defer { munmap(mapping, length) }
    var pages = [UInt8](repeating: 0, count: (length + 4095) / 4096)
    guard mincore(mapping, length, &pages) == 0 else { return -1 }
    return Int64(pages.count { $0 & 1 == 1 }) * 4096
}

/// Whether pages of that file can leave the page cache: a filesystem in memory has no other place for them.
package func hasPagesOnDisk(_ path: String) -> Bool {
    let probe = path + ".probe"
    let file = open(probe, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { return false }
    defer {
        close(file)
        unlink(probe)
    }
    guard pwrite(file, "x", 1, 0) == 1, fsync(file) == 0, posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0 else {
        return false
    }
    return residentBytes(probe, ByteRange(0, 1)) == 0
}
