import Glibc
import ReelCore
import Testing

@testable import ReelSources

/// The pages that `make-corpus` saved, and what was in the directories they show.
enum Corpus {
    static let base = ResourceURL("http://localhost/odd/")!
    /// 2024-05-06 07:08:09 UTC, the date of everything; most listings leave the seconds out.
    static let moment: Int64 = 1_714_979_289
    static let minute = moment - 9

    /// A file of the directory: its name, where it differs the name it gets here, its length.
    struct File: Sendable {
        var bytes: [UInt8]
        var name: String
        var length: Int64

        init(_ name: String, _ length: Int64, safe: String? = nil) {
            bytes = Array(name.utf8)
            self.name = safe ?? name
            self.length = length
        }
    }

    static let files: [File] = {
        var files = [
            File("plain.mp4", 1234), File("large film.mkv", 5_000_000_001), File("rounded.bin", 1536),
            File("empty.txt", 0), File("two  spaces.txt", 1), File(" leading space", 2),
            File("Füße und Straße.mp3", 3), File("日本語のとても長い名前のファイルで表示では切られてしまうもの.mp4", 4),
            File("100%.txt", 5), File("50%25.txt", 6), File("%2F.txt", 7), File("%00.txt", 8), File("a#b.txt", 9),
            File("what?.txt", 10), File("?C=N;O=D", 11), File("a&b.txt", 12), File("&amp;.txt", 13),
            File("<tag>.txt", 14), File("\"quoted\".txt", 15), File("it's.txt", 16), File("a+b.txt", 17),
            File(".hidden", 18), File("..twodots", 19), File("...", 20), File("colon:x.txt", 21),
            File("javascript:x", 22), File("Parent Directory", 23), File("back\\slash.txt", 24),
            File("semi;colon.txt", 25), File("tab\there.txt", 26, safe: "tab%09here.txt"),
            File("new\nline.txt", 27, safe: "new%0Aline.txt"), File("latin1-?.txt", 28, safe: "latin1-%FC.txt"),
            File("~tilde", 29), File("[brackets] {braces}.txt", 30),
            File("l" + String(repeating: "o", count: 245) + "ng.txt", 31),
        ]
        let broken = files.firstIndex { $0.name == "latin1-%FC.txt" }!
        files[broken].bytes[7] = 0xFC
        return files
    }()
    static let folders = ["sub", "Ordner mit Umläuten", "colon:folder"]

    static func page(_ name: String) throws -> [UInt8] {
        // Beside this file, so that the tests need no bundle and so no Foundation.
        let path = #filePath.prefix(through: #filePath.lastIndex(of: "/")!) + "Corpus/" + name
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0, "no page \(name)")
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            try #require(count >= 0)
            if count == 0 { return bytes }
            bytes.append(contentsOf: buffer[..<count])
        }
    }
}

/// What every name of every source must be.
func isSafe(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    return (1...255).contains(bytes.count) && name != "." && name != ".."
        && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != 0x2F }
        && name.unicodeScalars.allSatisfy { !(0x80..<0xA0).contains($0.value) }
}
