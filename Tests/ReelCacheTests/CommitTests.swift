import Glibc
import ReelCore
import Testing

@testable import ReelCache

struct CommitTests {
    @Test func whatWasFilledIsThereAfterReopening() throws {
        let fixture = Fixture()
        let wanted = version(blocks: 130, less: 1000)
        var store = try fixture.open()
        do {
            let object = try store.object(for: wanted)
            #expect(object.filled.filledBlocks == 0)
            for block in [0, 63, 64, 129] {
                #expect(store.makeRoom(for: object.filled.bytes(of: block).count))
                try object.fill(block)
            }
        }
        let used = store.usage.used
        #expect(used == 4 * BlockSize.block - 1000)
        store.close()

        store = try fixture.open()
        #expect(store.usage.used == used)
        let object = try store.object(for: wanted)
        #expect((0..<130).filter { object.filled[$0] } == [0, 63, 64, 129])
        for block in [0, 63, 64, 129] { #expect(object.holds(block)) }
        store.close()
    }
}
