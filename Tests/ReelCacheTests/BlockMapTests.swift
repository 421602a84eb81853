import ReelCore
import Testing

@testable import ReelCache

@Suite struct BlockMapTests {
    @Test func bitsBehindTheEndAreNotBelieved() {
        var map = BlockMap(length: 3 * BlockSize.block + 1)
        map.load(extent: 0, word: .max)
        map.load(extent: 7, word: .max)
        #expect(map.filledBlocks == 4 && map.isComplete && map.filledBytes == map.length)
        map.load(extent: 0, word: 0b1001)
        #expect(map.filledBlocks == 2 && map.filledBytes == BlockSize.block + 1)
    }
}
