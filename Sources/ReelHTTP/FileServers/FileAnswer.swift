/// What a file server tells of one file.
struct FileFacts: Equatable {
    /// Bytes, nil if it does not say.
    var length: Int64?
    /// Seconds since 1970, nil if it does not say.
    var modified: Int64?
}

/// What one request has of the answer of a file server, which has no head of its own.
struct FileAnswer {
    /// The request asks for length and date alone.
    private(set) var asksHead = false
    /// Known before the body begins, nil if curl brings them with its first byte.
    private(set) var facts: FileFacts?
    /// The last line of the control connection.
    private(set) var reply: [UInt8] = []
    /// Bytes behind those that the receiver has got, which go to the request that goes on from there.
    private(set) var surplus: [UInt8] = []
    /// The request takes no more of its body, which goes on without it.
    private(set) var isOver = false
    /// The body is that of an earlier request.
    private(set) var isTakenOver = false
    /// Its body ends where this request begins: this one waits for it.
    private(set) var awaited: Transfer?

    /// The request is about to be sent. - Parameter known: nil: curl tells the facts with the first byte.
    mutating func begin(asksHead: Bool, _ known: FileFacts?) { (self.asksHead, facts) = (asksHead, known) }

    /// It waits for the body of another request.
    mutating func wait(for earlier: Transfer) { awaited = earlier }
    mutating func stopWaiting() { awaited = nil }

    /// It goes on with the body of an earlier request.
    mutating func takeOver(_ facts: FileFacts, _ surplus: [UInt8]) {
        (self.facts, self.surplus, isTakenOver) = (facts, surplus, true)
    }

    mutating func take(reply line: UnsafeRawBufferPointer) { reply = Array(line.prefix(512)) }
    mutating func learn(_ facts: FileFacts) { self.facts = facts }

    /// The receiver did not take these bytes, which are before all others of the surplus.
    mutating func putBack(_ bytes: [UInt8]) { surplus = bytes + surplus }

    /// The next bytes of the surplus, nil if there are none or the request takes no more.
    mutating func takePiece() -> [UInt8]? {
        guard !surplus.isEmpty, !isOver else { return nil }
        defer { surplus.removeFirst(min(surplus.count, Self.pieceSize)) }
        return Array(surplus.prefix(Self.pieceSize))
    }

    private static let pieceSize = 64 << 10

    /// The request takes no more of its body.
    mutating func end() { isOver = true }
}
