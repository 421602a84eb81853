/// The facts that a file server gives of one file.
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

    /// The request is about to be sent, or goes on with a body. - Parameter known: nil if curl gives the facts with
    /// the first byte.
    mutating func begin(asksHead: Bool, _ known: FileFacts?) { (self.asksHead, facts) = (asksHead, known) }

    mutating func take(reply line: UnsafeRawBufferPointer) { reply = Array(line.prefix(512)) }
    mutating func learn(_ facts: FileFacts) { self.facts = facts }
}
