import Testing

@testable import ReelCore

@Suite struct FileMapTests {
    private static let length: Int64 = 96 * BlockSize.block

    private func map(_ there: [ByteRange], coming: [ByteRange] = [], length: Int64 = Self.length) -> String? {
        FileMap.text(TestBytes(length: length, there: there), coming: coming)
    }

    @Test("Each cell shows whether its bytes are there, in part, on their way or missing")
    func cells() throws {
        let block = BlockSize.block
        let text = try #require(
            map(
                [ByteRange(0, 2 * block), ByteRange(5 * block + 7, 5 * block + 8)],
                coming: [ByteRange(9 * block, 9 * block + 1)]))
        #expect(text == "##...+...>" + String(repeating: ".", count: 86))
        // What is there is there, also where a request brings it again.
        #expect(map([ByteRange(0, Self.length)], coming: [ByteRange(0, 5)]) == String(repeating: "#", count: 96))
    }

    @Test("A length that is not known, or nothing, has no map", arguments: [0, BlockSize.openEnd])
    func none(length: Int64) { #expect(map([], length: length) == nil) }

    @Test("The cells of any length lie in it, in order", arguments: [1, 5, 95, 96, 97, 1 << 40, BlockSize.openEnd - 1])
    func bounds(length: Int64) {
        let cells = (0..<FileMap.cells).map { FileMap.bytes(of: $0, length: length) }
        #expect(cells[0].lower == 0)
        #expect(cells.allSatisfy { $0.count >= 1 && $0.lower < length && $0.upper <= length })
        #expect(zip(cells, cells.dropFirst()).allSatisfy { $0.lower <= $1.lower && $1.lower <= $0.upper })
        #expect(cells[FileMap.cells - 1].upper == length)
        #expect(map([], length: length)?.count == FileMap.cells)
        for offset in [-1, 0, length / 2, length, .max] {
            #expect((0..<FileMap.cells).contains(FileMap.cell(at: offset, length: length)))
        }
    }
}
