import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// An answer of a longer file, until the known blocks are compared.
@Suite struct HeldAnswerTests {
    private let url = ResourceURL("http://a/film.ts")!

    private func head(_ range: ByteRange) -> [(String, String)] {
        [
            ("Content-Range", "bytes \(range.lower)-\(range.upper - 1)/2000000"), ("Content-Length", "\(range.count)"),
            ("ETag", "\"2\""),
        ]
    }

    @Test(
        "Its bytes are taken where the blocks are the same, and never where they are others", arguments: [true, false])
    func held(_ isSame: Bool) throws {
        try withServices(VolumeOptions(growing: true)) { services, origin, _ in
            let table = FileTable(services)
            let information = ContentInformation(
                length: 1 << 20, validator: Validator(entityTag: EntityTag("\"1\""), lastModified: nil))
            let file = try #require(try table.openNow(url, information))
            let known = [UInt8](repeating: 7, count: Int(BlockSize.block))
            try known.withUnsafeBytes { try file.object.write($0, at: 0) }
            let asked = ByteRange(512 << 10, 640 << 10)
            let receiver = StreamReceiver(
                file, file.adopt(RequestHandle(), asked, isWhole: false), url, asked)
            let (first, rest) = (ByteRange(asked.lower, asked.lower + 1000), ByteRange(asked.lower + 1000, asked.upper))
            let new = [UInt8](repeating: 8, count: Int(rest.count))
            let answers = Shared<[BodyAnswer]>([])
            let take = { @Sendable (count: Int64) in
                let answer = new[..<Int(count)].withUnsafeBytes { receiver.body($0) }
                answers.change { $0.append(answer) }
            }
            origin.perform { [self] in
                let head = ResponseHead(status: 206, headers: head(asked), url: url)
                if receiver.head(head) != nil { Issue.record("the head was refused") }
                take(first.count)
            }
            #expect(eventually { origin.paths.count == 1 })
            #expect(!file.object.present.covers(first))
            let block = ByteRange(0, BlockSize.block)
            origin.answer(0, head(block), body: isSame ? known : [UInt8](repeating: 9, count: known.count))
            // The comparison, and what follows from it on the same thread.
            for _ in 0..<2 { origin.turn() }
            #expect(file.length == (isSame ? 2_000_000 : 1 << 20))
            // The transport may hand on more before it hears of the end.
            origin.perform { take(rest.count) }
            origin.turn()
            #expect(answers.value.first == .pause && answers.value.last == .stop)
            #expect(file.object.present.covers(asked) == isSame)
            #expect((file.object.present.firstCovered(from: asked.lower, limit: asked.upper) == asked.lower) == isSame)
            origin.perform { receiver.ended(isSame ? nil : .cancelled) }
            origin.turn()
            #expect(file.isSuperseded == !isSame)
            table.close(file)
        }
    }
}
