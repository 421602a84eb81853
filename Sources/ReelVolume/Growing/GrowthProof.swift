import ReelCache
import ReelCore
import ReelThreads

/// Finds out whether the origin has a longer form of a version: compares the first and the last block that the cache
/// has of it with the origin's bytes, and then makes the version a longer one.
///
/// All of it except `start` runs on the transport's thread, which is the one that writes.
final class GrowthProof: OriginReceiver, @unchecked Sendable {
    enum Verdict: Hashable, Sendable {
        /// The version is now the one that the origin had when the last block was compared, or was so before.
        case grown(ContentInformation)
        /// The origin has something else, or what was read of the version is not there to compare.
        case differs
        /// It gave no answer, or the cache cannot make the version longer at this moment.
        case unknown
    }

    /// Bytes of the version in the cache, and the range of the request that brings the origin's.
    private struct Part: Sendable {
        let own: [UInt8]
        let asked: ByteRange
    }

    /// What is asked for with the last bytes of the version, from the start of their block on: mostly all that is new.
    static let ahead: Int64 = 1 << 20

    private let file: RemoteFile
    private let url: ResourceURL
    private let known: ContentInformation
    private let length: Int64
    private let stallLimit: Duration
    private var parts: ArraySlice<Part>
    private var part: Part
    private var bytes: [UInt8] = []
    /// From the head of the last answer that fits.
    private var found: ContentInformation?
    private var isOther = false
    private let request = Lock<RequestHandle?>(nil)
    private let completion: Once<Verdict>
    /// Ends a body that never stops dripping.
    private var timer: UInt64?

    private init?(_ file: RemoteFile, _ stallLimit: Duration, _ completion: @escaping @Sendable (Verdict) -> Void) {
        (self.file, url, known, length) = (file, file.url, file.information, file.length)
        self.stallLimit = stallLimit
        self.completion = Once(completion)
        guard let parts = Self.parts(of: file, length), let first = parts.first else { return nil }
        self.parts = parts[...]
        part = first
    }

    /// Nothing of the version is in the cache, and no program has a byte of it.
    private var isUntouched: Bool { parts.isEmpty && part.own.isEmpty }

    /// Reads the cache: not for a thread that must not wait for the disk.
    /// - Parameter completion: called once, on the transport's thread, or before the call returns.
    static func start(
        _ file: RemoteFile, within limit: Duration, _ completion: @escaping @Sendable (Verdict) -> Void
    ) {
        guard let proof = GrowthProof(file, limit, completion) else { return completion(.differs) }
        let end = { @Sendable in
            if let request = proof.request.withLock({ $0 }) { request.cancel() }
        }
        proof.timer = file.services.ticker.after(limit, end, atEnd: end)
        proof.next()
    }

    /// nil where what was read of the version is not there any more. Of one that was never read there is nothing to
    /// compare.
    private static func parts(of file: RemoteFile, _ length: Int64) -> [Part]? {
        let known = known(of: file.object, length)
        if known.isEmpty {
            return file.isUnread ? [Part(own: [], asked: ByteRange(0, length == 0 ? ahead : BlockSize.block))] : nil
        }
        var parts: [Part] = []
        for range in known {
            var own = [UInt8](repeating: 0, count: Int(range.count))
            guard own.withUnsafeMutableBytes({ file.object.read(into: $0, at: range.lower) }) == .bytes(own.count)
            else { return nil }
            parts.append(
                Part(own: own, asked: range.upper == length ? ByteRange(range.lower, range.lower + ahead) : range))
        }
        return parts
    }

    /// The first and the last block that are in the cache; where none is whole, a part of one, which may be the same by
    /// chance where it is short.
    private static func known(of object: CacheObject, _ length: Int64) -> [ByteRange] {
        let whole = object.outermostBlocks.map { BlockSize.bytes(of: $0, length: length) }
        guard whole.isEmpty else { return whole }
        let part = object.present.firstRun(ofAtLeast: MirrorProof.least) ?? object.present.firstRun(ofAtLeast: 1)
        return part.map { [$0] } ?? []
    }

    private func next() {
        part = parts.removeFirst()
        bytes = []
        let handle = RequestHandle()
        request.withLock { $0 = handle }
        let request = OriginRequest(url: url, range: part.asked, reason: .probe, stallLimit: stallLimit)
        file.services.origin.start(handle, request, self)
    }

    var program: String? { file.program }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: part.asked, isConditional: false, known: nil) {
        case .failure(let failure): return failure
        case .range(let information) where isLongEnough(information):
            found = information
            return nil
        // Without ranges, nothing can be compared.
        case .range, .whole, .unchanged:
            isOther = true
            return .changed
        }
    }

    /// Whether an answer may be of a longer form, and of no earlier one than the answer before.
    private func isLongEnough(_ information: ContentInformation) -> Bool {
        guard let total = information.length, information.validator.mirror == 0 else { return false }
        return total > length || information.isSameVersion(as: known) ? total >= found?.length ?? length : false
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        file.services.counters.demandedBytes(bytes.count)
        self.bytes += bytes
        return .more
    }

    func ended(_ failure: OriginFailure?) {
        if isOther { return end(.differs) }
        // It has become shorter.
        if case .status(416, _)? = failure { return end(.differs) }
        guard failure == nil, let found else { return end(.unknown) }
        guard bytes.starts(with: part.own) else { return end(.differs) }
        if !parts.isEmpty { return next() }
        end(lengthen(to: found))
    }

    private func lengthen(to found: ContentInformation) -> Verdict {
        guard let total = found.length, total > length else { return .grown(known) }
        let isUntouched = isUntouched
        if isUntouched {
            // Bytes of the old version may have come meanwhile, on this thread.
            let isStillUntouched = file.isUnread && file.object.present.firstCovered(from: 0, limit: length) >= length
            if !isStillUntouched { return .unknown }
        }
        // The block that was the last leaves, and came in the last answer, if that was of this block.
        let lower = isUntouched ? 0 : length / BlockSize.block * BlockSize.block
        let upper = part.asked.lower + Int64(bytes.count)
        let new = part.asked.lower <= lower && lower < upper ? bytes[Int(lower - part.asked.lower)...] : []
        guard file.length == length else { return .differs }
        return file.lengthen(known, to: found, new, at: lower)
    }

    private func end(_ verdict: Verdict) {
        if let timer { file.services.ticker.cancel(timer) }
        completion(verdict)
    }
}
