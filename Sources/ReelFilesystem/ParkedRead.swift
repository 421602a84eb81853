/// A read that waits for its bytes. Data, an interrupt, the deadline and shutdown race for it: the implementation lets
/// the first call through and ignores the others. Callable from any thread.
package protocol ParkedRead: AnyObject, Sendable {
    /// Answers with bytes. - Parameter bytes: valid during the call; fewer than asked for only at the end of the file.
    func succeed(_ bytes: UnsafeRawBufferPointer)
    /// Answers with an error.
    func fail(_ error: VolumeError)
    /// Whether an answer was let through: bytes for it are of no use any more.
    var isAnswered: Bool { get }
    /// The number of the thread that reads (gettid(2)); nil where it is not known.
    var thread: Int32? { get }
}

extension ParkedRead {
    /// It is not known.
    package var isAnswered: Bool { false }
    /// It is not known.
    package var thread: Int32? { nil }
}

/// The outcome of a read's first attempt.
package enum ReadAnswer: Sendable {
    /// This many bytes are in the buffer; fewer than asked for only at the end of the file.
    case read(Int)
    /// The parked read was taken; it will be answered exactly once.
    case parked
    case failed(VolumeError)
}
