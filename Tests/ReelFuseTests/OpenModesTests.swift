import TestKit
import Testing

@testable import ReelFuse

@Suite("How the opens of a node read")
struct OpenModesTests {
    let one = FileIdentity(device: 1, inode: 1)
    let other = FileIdentity(device: 1, inode: 2)

    @Test("The first open decides, the last close ends the registration")
    func life() {
        var modes = OpenModes()
        #expect(modes.open(2, offer: one) { 7 } == .backed(7))
        #expect(modes.hasPassthrough)
        #expect(modes.open(2, offer: one) { 8 } == .backed(7))
        #expect(modes.close(2) == nil)
        #expect(modes.close(2) == 7)
        #expect(!modes.hasPassthrough && modes.openNodes == 0)
    }

    @Test("A served node stays served until its last close, whatever is offered")
    func served() {
        var modes = OpenModes()
        #expect(modes.open(2, offer: nil) { 7 } == .served)
        #expect(modes.open(2, offer: one) { 7 } == .served)
        #expect(modes.open(3, offer: one) { 8 } == .backed(8))
        #expect(modes.close(2) == nil)
        #expect(modes.open(2, offer: one) { 7 } == .served)
        #expect(modes.close(2) == nil && modes.close(2) == nil)
        #expect(modes.open(2, offer: one) { 9 } == .backed(9))
    }

    @Test("The modes of an earlier process go on, and a file that is not verified yet joins its passthrough")
    func inherited() {
        var before = OpenModes()
        #expect(before.open(2, offer: one) { 7 } == .backed(7))
        #expect(before.open(3, offer: nil) { 8 } == .served)
        var modes = OpenModes()
        modes.inherit(before.all)
        #expect(modes.open(2, offer: nil) { 9 } == .backed(7) && modes.open(2, offer: one) { 9 } == .backed(7))
        #expect(modes.open(2, offer: other) { 9 } == .stale)
        #expect(modes.open(3, offer: one) { 9 } == .served)
        #expect(modes.close(2) == nil && modes.close(2) == nil && modes.close(2) == 7)
        #expect(modes.open(2, offer: other) { 9 } == .backed(9) && modes.open(2, offer: nil) { 9 } == .stale)
    }

    @Test("A registration that failed leaves the node served")
    func refused() {
        var modes = OpenModes()
        #expect(modes.open(2, offer: one) { nil } == .served)
        #expect(modes.open(2, offer: one) { 7 } == .served && !modes.hasPassthrough)
        #expect(modes.close(2) == nil && modes.close(2) == nil && modes.openNodes == 0)
    }

    @Test("No other file than the one that the node is read from, and not none")
    func mismatch() {
        var modes = OpenModes()
        #expect(modes.open(2, offer: one) { 7 } == .backed(7))
        #expect(modes.open(2, offer: other) { 8 } == .stale)
        #expect(modes.open(2, offer: nil) { 8 } == .stale)
        #expect(modes.close(2) == 7)
        #expect(modes.open(2, offer: other) { 8 } == .backed(8))
    }

    /// The kernel's own rules: what fs/fuse/iomode.c refuses with EIO.
    struct Kernel {
        var served: [UInt64: Int] = [:]
        var backed: [UInt64: [Int32]] = [:]

        func allows(_ node: UInt64, backing: Int32?) -> Bool {
            guard let backing else { return backed[node, default: []].isEmpty }
            return served[node, default: 0] == 0 && backed[node, default: []].allSatisfy { $0 == backing }
        }
    }

    @Test("Whatever comes, the kernel is never answered what it refuses, and no registration is left")
    func random() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        var modes = OpenModes()
        var kernel = Kernel()
        var registered: Set<Int32> = []
        var files: [Int32: FileIdentity] = [:]
        var last: Int32 = 0
        func close(_ node: UInt64, _ backing: Int32?) {
            if backing == nil {
                kernel.served[node]! -= 1
            } else {
                kernel.backed[node]!.removeLast()
            }
            if let ended = modes.close(node) { #expect(registered.remove(ended) != nil, "seed \(seed)") }
        }
        var opens: [(node: UInt64, backing: Int32?)] = []
        for _ in 0..<5000 {
            if opens.count > 12 || (Bool.random(using: &generator) && !opens.isEmpty) {
                let gone = opens.remove(at: .random(in: opens.indices, using: &generator))
                close(gone.node, gone.backing)
                continue
            }
            let node = UInt64.random(in: 2...4, using: &generator)
            let offer = [nil, one, one, other].randomElement(using: &generator)!
            let opening = modes.open(node, offer: offer) {
                last += 1
                guard Int.random(in: 0..<4, using: &generator) > 0 else { return nil }
                registered.insert(last)
                files[last] = offer
                return last
            }
            switch opening {
            case .served:
                try #require(kernel.allows(node, backing: nil), "seed \(seed)")
                kernel.served[node, default: 0] += 1
                opens.append((node, nil))
            case .backed(let number):
                try #require(kernel.allows(node, backing: number) && files[number] == offer, "seed \(seed)")
                kernel.backed[node, default: []].append(number)
                opens.append((node, number))
            case .stale: #expect(!kernel.backed[node, default: []].isEmpty, "seed \(seed)")
            }
        }
        for open in opens { close(open.node, open.backing) }
        #expect(registered.isEmpty && modes.openNodes == 0, "seed \(seed)")
    }
}

@Suite("The handshake's bytes")
struct HandshakeTests {
    static func request(opcode: UInt32 = 26, minor: UInt32 = 45, flags: UInt32 = 1 << 30, more: UInt32 = 1 << 5)
        -> [UInt32]
    {
        [104, opcode, 0x55, 0, 0, 0, 0, 0, 0, 0, 7, minor, 131_072, flags, more] + Array(repeating: 0, count: 11)
    }

    static let requests: [([UInt32], Bool)] = [
        (request(), true), (request(opcode: 1), false), (request(minor: 39), false), (request(flags: 0), false),
        (request(more: 0xFFFF_FFDF), false), (Array(request().prefix(14)), false), ([], false),
    ]

    @Test("Only an INIT that offers passthrough is taken for one", arguments: requests)
    func offer(words: [UInt32], expected: Bool) {
        words.withUnsafeBytes { #expect(InitExchange.offersPassthrough($0) == expected) }
    }

    @Test("The reply asks for passthrough and is otherwise left as it was")
    func amended() {
        var words = (1...16).map { UInt32($0) }
        words.withUnsafeMutableBytes { #expect(InitExchange.askForPassthrough($0, depth: 2)) }
        var expected = (1...16).map { UInt32($0) }
        expected[3] |= 1 << 30
        expected[8] |= 1 << 5
        expected[9] = 2
        #expect(words == expected)
        var short = [UInt32](repeating: 0, count: 6)
        short.withUnsafeMutableBytes { #expect(!InitExchange.askForPassthrough($0, depth: 1)) }
        #expect(short == [0, 0, 0, 0, 0, 0])
    }

    @Test("A reply of another request, or an error, is not the one")
    func reply() {
        func isSuccess(_ words: [UInt32]) -> Bool { words.withUnsafeBytes { InitExchange.isSuccess($0, of: 0x55) } }
        #expect(isSuccess([80, 0, 0x55, 0]))
        #expect(!isSuccess([80, 0, 0x56, 0]) && !isSuccess([16, UInt32(bitPattern: -71), 0x55, 0]) && !isSuccess([]))
    }
}
