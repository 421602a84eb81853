import Glibc

/// The name of a data file: 128 random bits, so that nothing of a URL can be read from it, and a file that comes back
/// under a forgotten name is never taken for one of ours. In `objects/` it is `ab/` and 32 hexadecimal digits, `ab`
/// being the first two.
struct FileName: Hashable, Sendable {
    let number: UInt128

    static func random() -> FileName { FileName(number: UInt128.random(in: .min ... .max)) }

    private init(number: UInt128) { self.number = number }

    /// As the index holds it: 16 bytes, the first digit's byte first. nil for anything else.
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

    var text: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 32 - digits.utf8.count) + digits
    }

    /// The directory inside `objects/`.
    var directory: String { String(text.prefix(2)) }
}

extension FileName {
    /// Makes the empty sparse file; fails where there is anything of that name.
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

    /// The file, as long as the index believes it to be; nil where it is missing or no regular file. One that was cut
    /// is made as long again: checksums say what of it is left.
    func open(in objects: borrowing Descriptor, length: Int64) -> Descriptor? {
        // O_NONBLOCK: a pipe put in its place must not make the open wait. A disk that is read-only can be read.
        guard let directory = try? Descriptor(directory: directory, in: objects.number),
            let file = (try? Descriptor(text, in: directory.number, O_RDWR | O_NONBLOCK))
                ?? (try? Descriptor(text, in: directory.number, O_RDONLY | O_NONBLOCK)),
            let status = try? file.status(), status.st_mode & S_IFMT == S_IFREG
        else { return nil }
        if status.st_size != length { ftruncate(file.number, Int(length)) }
        return file
    }

    func remove(in objects: borrowing Descriptor) {
        guard let directory = try? Descriptor(directory: directory, in: objects.number) else { return }
        unlinkat(directory.number, text, 0)
    }
}
