/// The types of the ledger's events and answers.
extension Ledger {
    /// Names a stream of one ledger.
    package typealias StreamID = UInt64
    /// Names a waiting read of one ledger; the caller chooses it.
    package typealias ReadID = UInt64

    /// A step that the caller has to take.
    package enum Action: Hashable, Sendable {
        /// Ask the origin for these bytes. A stream that retries starts again under its old name.
        case start(StreamID, ByteRange, isDemanded: Bool)
        /// End the running request.
        case stop(StreamID)
        /// Let a paused request go on.
        case resume(StreamID)
        /// A read waits now for bytes that were asked for ahead.
        case promote(StreamID)
        /// All bytes of this read are there.
        case complete(ReadID)
        /// The deadline of this read has passed, and these bytes of it are there. Only of a version with an open end:
        /// of any other a short answer would be taken for the end.
        case completeInPart(ReadID, ByteRange)
        /// This read gets no bytes.
        case fail(ReadID, ReadFailure)
    }

    /// The limits that the mount and the origin set to one file.
    package struct Limits: Sendable {
        /// Requests at a time for one reader (`ConcurrencyLimit`).
        package var requests = 1
        /// Bytes that may still be fetched ahead. A proven reader always gets `Readahead.near`.
        package var room = Int64.max
        /// Whether to read ahead for readers that may yet stop early (`SpeculationBudget.allowsEarly`).
        package var allowsEarly = true
        /// Bytes that one reader's readahead may grow to; the cache limits it as well.
        package var window = Int64.max
        /// Bytes that may be asked for ahead of readers without a pace of their own, beside four times what they read:
        /// no reader that reads on comes near it.
        package var probe = Int64.max
        /// A program that looks into many files reads this one: it is no player before it has a pace of its own.
        package var isScan = false
        /// Another file needs the line as well (`LineShare.isContended`).
        package var isContended = false
        /// Bytes from the beginning on, or from behind the index there, that the program has read in a row of each of
        /// its last files; 0: not known.
        package var reach: Int64 = 0
        /// Whether a silent request may have a second try beside it: a file server would want another login for it.
        package var mayHedge = true
        /// Whether the next request is sent only once the one before has ended, as it goes on with that one's body: a
        /// file server would else want another login for it.
        package var isOneBody = false
        /// Whether a second try asks another origin, so that it is worth more, and sooner.
        package var hasMirror = false

        /// Without arguments: one request at a time, and no other limit.
        package init(
            requests: Int = 1, room: Int64 = .max, allowsEarly: Bool = true, window: Int64 = .max,
            mayHedge: Bool = true, hasMirror: Bool = false, probe: Int64 = .max, isScan: Bool = false,
            isContended: Bool = false, reach: Int64 = 0, isOneBody: Bool = false
        ) {
            (self.requests, self.room, self.allowsEarly, self.window) = (requests, room, allowsEarly, window)
            (self.mayHedge, self.hasMirror, self.probe, self.isScan) = (mayHedge, hasMirror, probe, isScan)
            (self.isContended, self.reach, self.isOneBody) = (isContended, reach, isOneBody)
        }
    }
}
