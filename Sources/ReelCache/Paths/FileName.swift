import Glibc
import ReelThreads

/// The name of a data file: 128 random bits. It reveals nothing of a URL, and a file that comes back under a forgotten
/// name is never taken for one of ours. Its path in `objects/` is `ab/` and 32 hexadecimal digits, `ab` being the first
/// two.
struct FileName: Hashable, Sendable {
    let number: UInt128

    static func random() -> FileName {
        var numbers = RandomNumbers()
        return FileName(number: UInt128.random(in: .min ... .max, using: &numbers))
    }

    private init(number: UInt128) { self.number = number }

    /// From the index: 16 bytes, the first digit's byte first. nil for anything else.
    init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        number = bytes.reduce(0) { $0 << 8 | UInt128($1) }
    }

    /// nil unless `text` is a name of exactly our form.
    init?(text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let number = UInt128(text, radix: 16)
        else { return nil }
        self.number = number
    }

    var bytes: [UInt8] { (0..<16).map { UInt8(truncatingIfNeeded: number >> (120 - 8 * $0)) } }

    var text: String { hexadecimal(number) }

    /// The directory inside `objects/`.
    var directory: String { String(text.prefix(2)) }
}

/// 32 digits, a to f in lower case.
func hexadecimal(_ number: UInt128) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 32 - digits.utf8.count) + digits
}

extension FileName {
    /// Makes the empty sparse file; fails where anything has that name.
    func create(in objects: borrowing Descriptor, length: Int64) throws(CacheError) -> Descriptor {
        guard mkdirat(objects.number, directory, 0o700) == 0 || errno == EEXIST else { throw .last("mkdir") }
        let directory = try Descriptor(directory: directory, in: objects.number)
        let file = try Descriptor(text, in: directory.number, O_RDWR | O_CREAT | O_EXCL)
        guard ftruncate(file.number, Int(length)) == 0 else {
            let error = CacheError.last("ftruncate")
            unlinkat(directory.number, text, 0)
            throw error
        }
        return file
    }

    /// Opens the file; nil if it is missing or no regular file. A file of another length is made as long as the index
    /// says: checksums show which blocks are left.
    /// - Throws: for want of descriptors or memory.
    func open(in objects: borrowing Descriptor, length: Int64) throws(CacheError) -> Descriptor? {
        guard let directory = try Descriptor.find(directory, in: objects.number, O_RDONLY | O_DIRECTORY) else {
            return nil
        }
        // A read-only disk can be read.
        for access in [O_RDWR, O_RDONLY] {
            // O_NONBLOCK: the open must not wait for a pipe that was put in its place.
            guard let file = try Descriptor.find(text, in: directory.number, access | O_NONBLOCK),
                let status = try? file.status(), status.st_mode & S_IFMT == S_IFREG
            else { continue }
            if status.st_size != length { ftruncate(file.number, Int(length)) }
            return file
        }
        return nil
    }

    /// By its path, as there may be no descriptor left for the directory. A link in the directory's place leads to no
    /// file of this random name.
    func remove(in objects: borrowing Descriptor) { unlinkat(objects.number, directory + "/" + text, 0) }
}
