/// What a file server tells of one file.
struct FileFacts: Equatable {
    /// Bytes; nil: it does not say.
    var length: Int64?
    /// Seconds since 1970; nil: it does not say.
    var modified: Int64?
}

/// What one request has of the answer of a file server, which has no head of its own.
struct FileAnswer {
    /// The request asks for length and date alone.
    var asksHead = false
    /// Known before the body begins; nil: curl tells them with its first byte.
    var facts: FileFacts?
    /// The last line of the control connection.
    var reply: [UInt8] = []
    /// Bytes behind those that the receiver has got, which go to the request that goes on from there.
    var surplus: [UInt8] = []
    /// The request takes no more of its body, which goes on without it.
    var isOver = false
    /// The body is that of an earlier request.
    var isTakenOver = false
    /// Its body ends where this request begins: this one waits for it.
    var awaited: Transfer?
}
