import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Files that are open or were a moment ago, without a server.
@Suite struct FileTableTests {
    @Test("Of many files that are closed the oldest leave at once; those that are open stay")
    func closed() throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            let files = try (0..<400).map { number in
                let url = ResourceURL("http://a/\(number).mkv")!
                let information = ContentInformation(
                    length: 1000, validator: Validator(entityTag: nil, lastModified: Int64(number)))
                return try #require(try table.openNow(url, information))
            }
            // The first one stays open.
            for file in files.dropFirst() { table.close(file) }
            // The ticker's own thread may be about to take some out, too.
            #expect(
                eventually {
                    _ = table.tick(now())
                    return table.all.count == 257
                })
            let left = table.all.map { ObjectIdentifier($0) }
            #expect(Set(left) == Set((files.prefix(1) + files.suffix(256)).map { ObjectIdentifier($0) }))
        }
    }
}
