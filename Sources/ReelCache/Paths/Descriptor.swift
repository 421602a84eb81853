import CLinux
import Glibc
import ReelCore

/// A file descriptor, closed exactly once. No child inherits it, and it is opened without following a symbolic link.
///
/// Not swift-system's `FileDescriptor`: that one is `Copyable`, so closing it once would be up to each caller, while
/// the compiler sees to it here. Nor has it most of the calls below (openat, fdatasync, fallocate, leases, SEEK_HOLE).
struct Descriptor: ~Copyable, Sendable {
    let number: Int32

    /// - Parameter number: the result of a system call; below zero throws errno as the error of `call`.
    init(_ number: Int32, from call: String) throws(CacheError) {
        guard number >= 0 else { throw .last(call) }
        self.number = number
    }

    /// - Parameter number: of an open file that no one else closes.
    init(adopting number: Int32) { self.number = number }

    /// openat(2).
    init(_ name: String, in directory: Int32 = AT_FDCWD, _ flags: Int32) throws(CacheError) {
        let number = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, 0o600)
        try self.init(number, from: "open")
    }

    /// The same; nil if it cannot be opened.
    /// - Throws: for want of descriptors or memory, which says nothing of the file.
    static func find(_ name: String, in directory: Int32, _ flags: Int32) throws(CacheError) -> Descriptor? {
        do throws(CacheError) {
            return try Descriptor(name, in: directory, flags)
        } catch {
            if error.isShortage { throw error }
            return nil
        }
    }

    /// Opens a directory, and no link to one.
    init(directory name: String, in parent: Int32 = AT_FDCWD) throws(CacheError) {
        try self.init(name, in: parent, O_RDONLY | O_DIRECTORY)
    }

    /// Opens a directory that no other user could replace. Links of this user's lead on.
    /// - Parameters:
    ///   - path: absolute.
    ///   - makes: makes missing directories, 0700.
    init(trusted path: String, makes: Bool = false) throws(CacheError) {
        let number: Int32
        do throws(PathError) {
            number = try openTrusted(path, O_RDONLY | O_DIRECTORY, makesDirectories: makes)
        } catch {
            if case .system(_, let code) = error { throw .system("open", code) }
            throw .untrusted(error)
        }
        self.init(adopting: number)
    }

    /// No file: every call on it fails with EBADF.
    private init() { number = -1 }
    static var none: Descriptor { Descriptor() }

    deinit { if number >= 0 { close(number) } }

    /// fstat(2).
    func status() throws(CacheError) -> stat {
        var status = stat()
        guard fstat(number, &status) == 0 else { throw .last("fstat") }
        return status
    }

    /// fdatasync(2), which also flushes the length that reading the bytes back needs.
    func synchronise() throws(CacheError) {
        while fdatasync(number) != 0 {
            guard errno == EINTR else { throw .last("fdatasync") }
        }
    }

    /// All of `bytes`. pwrite(2).
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(CacheError) {
        var done = 0
        while done < bytes.count {
            let count = pwrite(number, bytes.baseAddress! + done, bytes.count - done, Int(offset) + done)
            if count < 0 {
                guard errno == EINTR else { throw .last("pwrite") }
            } else {
                done += count
            }
        }
    }

    /// Bytes read, fewer than asked for only at the end of the file; -1 on error. pread(2).
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        var done = 0
        while done < buffer.count {
            let count = pread(number, buffer.baseAddress! + done, buffer.count - done, Int(offset) + done)
            if count == 0 { break }
            if count < 0 {
                guard errno == EINTR else { return -1 }
            } else {
                done += count
            }
        }
        return done
    }

    /// Lets written pages leave the page cache, unless they are mapped. posix_fadvise(2), POSIX_FADV_DONTNEED.
    func dropPages(_ range: ByteRange) {
        _ = posix_fadvise(number, Int(range.lower), Int(range.count), POSIX_FADV_DONTNEED)
    }

    /// True where the file has data, not holes, from `lower` to `upper`. lseek(2), SEEK_HOLE.
    func hasData(_ range: ByteRange) -> Bool { reel_seek_hole(number, Int(range.lower)) >= Int(range.upper) }

    /// False where the file cannot hold this many bytes: it has another length, or fewer blocks. stat(2).
    func holds(_ bytes: Int64, of length: Int64) -> Bool {
        var status = stat()
        return fstat(number, &status) == 0 && status.st_size == length && Int64(status.st_blocks) * 512 >= bytes
    }

    /// False if the file has another length.
    func isLong(_ length: Int64) -> Bool { holds(0, of: length) }

    /// True if leases work, so that `isOpenElsewhere` is right.
    var tellsOpens: Bool { [0, EAGAIN].contains(reel_is_open_elsewhere(number)) }

    /// True where this file is open elsewhere too: in another process, as a mapping, or in the kernel for a handle that
    /// was given the file itself. Right only while this is the program's one descriptor of the file. fcntl(2), leases.
    var isOpenElsewhere: Bool { reel_is_open_elsewhere(number) == EAGAIN }

    /// Cuts the file, or makes it longer by a hole. ftruncate(2).
    func setLength(_ length: Int64) throws(CacheError) {
        if ftruncate(number, Int(length)) != 0 { throw .last("ftruncate") }
    }

    /// Turns the bytes into a hole; the file keeps its length. fallocate(2).
    func punch(_ offset: Int64, _ length: Int64) throws(CacheError) {
        while reel_punch_hole(number, Int(offset), Int(length)) != 0 {
            guard errno == EINTR else { throw .last("fallocate") }
        }
    }

    /// Does the same with blocks. The short last one goes as a whole: a hole that ends inside a page frees no page.
    func punch(_ blocks: Range<Int>) throws(CacheError) {
        try punch(Int64(blocks.lowerBound) * BlockSize.block, Int64(blocks.count) * BlockSize.block)
    }

    /// Does the same with all blocks but these. - Parameter count: of the file's blocks.
    func punch(allBut kept: RangeSet<Int>, of count: Int) throws(CacheError) {
        for gap in RangeSet(0..<count).subtracting(kept).ranges { try punch(gap) }
    }
}
