import ReelCache
import ReelCore
import ReelFilesystem
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

    @Test(
        "A version asked for under a weak tag is the strong one that is open, and goes with it when it has a new name")
    func weakTag() throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            let url = ResourceURL("http://a/film.mkv")!
            func version(isWeak: Bool, mirror: Int64) -> ContentInformation {
                let tag = EntityTag(isWeak ? "W/\"1\"" : "\"1\"")
                return ContentInformation(
                    length: 1000, validator: Validator(entityTag: tag, lastModified: 1, mirror: mirror))
            }
            func named(_ information: ContentInformation) -> Version {
                Version(
                    key: services.keys.key(of: url, information), validator: information.validator, length: 1000)
            }
            let weak = version(isWeak: true, mirror: 5)
            weak var object: CacheObject?
            do {
                let file = try #require(try table.openNow(url, version(isWeak: false, mirror: 5)))
                object = file.object
                #expect(try table.openNow(url, weak) === file && table.file(for: named(weak)) === file)
                let new = version(isWeak: false, mirror: 0)
                #expect(services.store.rename(named(weak), new.validator))
                #expect(table.file(for: named(new)) === file && table.file(for: named(weak)) == nil)
                for _ in 0..<2 { table.close(file) }
            }
            #expect(
                eventually {
                    _ = table.tick(now() + .seconds(60))
                    return table.all.isEmpty && object == nil
                })
        }
    }

    @Test(
        "A version whose bytes have come once more, without a length, stays when the file before it goes",
        arguments: ["\"1\"", "W/\"1\""])
    func settled(_ tag: String) throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            let url = ResourceURL("http://a/film.mkv")!
            var information = ContentInformation(
                length: 1000, validator: Validator(entityTag: EntityTag("\"1\""), lastModified: 1))
            let old = try #require(try table.openNow(url, information))
            information.length = nil
            information.validator.entityTag = EntityTag(tag)
            let new = try #require(try table.openNow(url, information))
            try [UInt8](repeating: 7, count: 1000).withUnsafeBytes { try new.object.write($0, at: 0) }
            let rest = new.adopt(RequestHandle(), ByteRange(1000, BlockSize.openEnd), isWhole: false)
            table.settle(new, rest) { _ in }
            new.ended(rest, nil, of: url)
            old.supersede()
            for file in [old, new] { table.close(file) }
            #expect(
                eventually {
                    _ = table.tick(now() + .seconds(60))
                    return table.all.isEmpty
                })
            #expect(services.keys.cachedBytes(of: url, 1000) == 1000)
        }
    }

    @Test("A read of a file that is opened while the volume ends does not wait")
    func openedAtTheEnd() throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            table.shutdown()
            let information = ContentInformation(
                length: 1000, validator: Validator(entityTag: nil, lastModified: 1))
            let file = try #require(try table.openNow(ResourceURL("http://a/film.mkv")!, information))
            let answer = file.refetch(0..<1).answer.wait(atMost: .seconds(60)) { $0 }
            #expect(throws: VolumeError.failed) { try answer?.get() }
        }
    }
}
