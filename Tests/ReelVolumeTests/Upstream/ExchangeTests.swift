import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Requests that may go to several places, without a server.
@Suite struct ExchangeTests {
    private static let film = ResourceURL("http://a/film.mkv")!
    private static let date: Int64 = 1_700_000_000

    private func withServices(
        timeout: Duration = .seconds(60), mirrors: [String] = ["http://b/"],
        _ body: (Services, HeldOrigin, Store) throws -> Void
    ) throws {
        let options = VolumeOptions(timeout: timeout, mirrors: mirrors.map { ResourceURL($0)! })
        try ReelVolumeTests.withServices(options, body)
    }

    @Test func aHeadThatWasRefusedIsNoFailureOfTheNextPlace() throws {
        try withServices { services, origin, _ in
            let receiver = Receiver(refusals: 1)
            let request = OriginRequest(url: Self.film, range: ByteRange(0, 4), reason: .head)
            services.origin.start(request, receiver)
            let headers = [("Content-Range", "bytes 0-3/4"), ("Content-Length", "4")]
            #expect(eventually { origin.paths.count == 1 })
            origin.answer(0, headers, body: [9, 9, 9, 9])
            #expect(eventually { origin.paths.count == 2 })
            origin.answer(1, headers, body: [1, 2, 3, 4])
            #expect(receiver.end == .some(nil))
            #expect(receiver.bytes == [1, 2, 3, 4])
        }
    }

    @Test func aVersionThatNoPlaceCanBeAskedForHasNotChanged() throws {
        try withServices { services, origin, _ in
            func failure(_ mark: Int64) -> OriginFailure?? {
                let validator = Validator(entityTag: nil, lastModified: Self.date).at(mirror: mark)
                let receiver = Receiver()
                var request = OriginRequest(url: Self.film, range: ByteRange(0, 4), reason: .demand)
                request.version = ContentInformation(length: 4, validator: validator)
                services.origin.start(request, receiver)
                return receiver.end
            }
            let mirrors = try #require(services.upstream.mirrors)
            // Of a mirror that is not named any more.
            let other = mirrors.mark(of: 1) + 1
            #expect(failure(other) == .interrupted("no place agrees with what is known"))
            origin.tell("http://a", .unreachable)
            #expect(failure(other) == .away(.unreachable))
            // Where its mirror has another version now, it has.
            let validator = Validator(entityTag: nil, lastModified: Self.date).at(mirror: mirrors.mark(of: 1))
            mirrors.leaveOut(Self.film, ContentInformation(length: 4, validator: validator), at: 1, "it is another")
            #expect(failure(mirrors.mark(of: 1)) == .changed)
            #expect(origin.paths.isEmpty)
        }
    }

    @Test func aDeadlineEndsTheRequestAndHoldsUpNoTimer() throws {
        try withServices(mirrors: []) { services, origin, _ in
            let ended = Monitor<(isTimeOut: Bool, isCancelled: Bool, isTicking: Bool)?>(nil)
            InformationRequest.start(Self.film, limit: .milliseconds(100), services) { outcome in
                let tick = Gate()
                services.ticker.after(.zero) {
                    tick.open()
                } atEnd: {
                }
                let end = (outcome.failure == .timedOut, origin.isCancelled(0), tick.wait(within: .seconds(30)))
                ended.withLock { $0 = end }
            }
            let end = try #require(ended.wait(atMost: .seconds(60)) { $0 })
            #expect(end.isTimeOut && end.isCancelled && end.isTicking)
        }
    }

    /// Caches 1000 bytes of the film, each a 7, and remembers their version.
    private func cache(
        _ services: Services, _ store: Store, mirror mark: Int64 = 0, checkedAt: Int64
    ) throws -> [UInt8] {
        let known = ContentInformation(
            length: 1000, validator: Validator(entityTag: nil, lastModified: Self.date).at(mirror: mark))
        store.remember(known, for: Self.film.text, checkedAt: checkedAt)
        let key = services.keys.key(of: Self.film, known)
        let bytes = [UInt8](repeating: 7, count: 1000)
        let object = try store.object(for: Version(key: key, validator: known.validator, length: 1000))
        try bytes.withUnsafeBytes { try object.write($0, at: 0) }
        store.commit()
        return bytes
    }

    @Test(
        "A mirror may have what is remembered of a resource, but not what that has grown to", arguments: [false, true])
    func growing(_ isGrowing: Bool) throws {
        try withServices { services, origin, store in
            _ = try cache(services, store, checkedAt: 0)
            let receiver = Receiver()
            var request = OriginRequest(url: Self.film, range: ByteRange(0, 4), reason: .demand)
            request.isGrowing = isGrowing
            services.origin.start(request, receiver)
            #expect(eventually { origin.paths.count == 1 })
            origin.fail(0, .status(503, retryAfter: nil))
            if isGrowing {
                #expect(receiver.end == .status(503, retryAfter: nil))
                #expect(origin.paths.count == 1)
            } else {
                // The block that is compared.
                #expect(eventually { origin.paths.count == 2 })
            }
        }
    }

    @Test func bytesOfAMirrorThatAreTheSourcesStayWhereItsLengthIsAskedForAgain() throws {
        try withServices { services, origin, store in
            let mark = try #require(services.upstream.mirrors).mark(of: 1)
            let bytes = try cache(services, store, mirror: mark, checkedAt: Services.doubted)
            let ended = Monitor<Result<ContentInformation, VolumeError>?>(nil)
            InformationLoader(FileTable(services), services).load(Self.film) { result in
                ended.withLock { $0 = result }
            }
            let date = ("Last-Modified", httpDateText(Self.date))
            #expect(eventually { origin.paths.count == 1 })
            origin.answer(0, [date, ("Content-Range", "bytes 0-0/1000"), ("Content-Length", "1")], body: [7])
            // The block that is compared.
            #expect(eventually { origin.paths.count == 2 })
            origin.answer(1, [date, ("Content-Range", "bytes 0-999/1000"), ("Content-Length", "1000")], body: bytes)
            let found = try #require(ended.wait(atMost: .seconds(30)) { $0 }).get()
            #expect(found.validator.mirror == 0)
            #expect(services.upstream.cachedBlock(of: Self.film, found)?.range == ByteRange(0, 1000))
        }
    }
}

/// Keeps what comes.
private final class Receiver: OriginReceiver {
    private struct State {
        var refusals: Int
        var bytes: [UInt8] = []
        var end: OriginFailure??
    }

    private let state: Monitor<State>

    /// - Parameter refusals: this many heads are refused.
    init(refusals: Int = 0) { state = Monitor(State(refusals: refusals)) }

    var bytes: [UInt8] { state.withLock { $0.bytes } }
    /// How it ended; nil if it did not within half a minute.
    var end: OriginFailure?? { state.wait(atMost: .seconds(30)) { $0.end.map { .some($0) } } ?? nil }

    func head(_ head: ResponseHead) -> OriginFailure? {
        state.withLock { state in
            if state.refusals == 0 { return nil }
            state.refusals -= 1
            return .wrongAnswer("refused")
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let bytes = Array(bytes)
        state.withLock { $0.bytes += bytes }
        return .more
    }

    func ended(_ failure: OriginFailure?) { state.withLock { $0.end = .some(failure) } }
}
