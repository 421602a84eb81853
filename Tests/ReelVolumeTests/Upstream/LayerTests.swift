import ReelCache
import ReelCore
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// A request is controlled at the layer that has it, without a server.
@Suite struct LayerTests {
    enum Place: CaseIterable {
        case bucket, origin
    }

    private static let film = ResourceURL("http://a/film.mkv")!

    /// A request that the tier takes.
    private static var request: OriginRequest {
        let validator = Validator(entityTag: EntityTag("\"1\""), lastModified: nil)
        var request = OriginRequest(url: film, range: ByteRange(0, 1000), isDemanded: false, reason: .ahead)
        request.version = ContentInformation(length: 1000, validator: validator)
        request.stored = Version(key: film.text, validator: validator, length: 1000)
        return request
    }

    /// Runs `body` with layers over an origin and over a bucket that hold their requests.
    private func withTier(_ body: (any Origin, _ origin: HeldOrigin, _ bucket: HeldOrigin) throws -> Void) throws {
        let bucket = HeldOrigin()
        defer { bucket.stop() }
        let address = try #require(S3Address("s3://shared/films", endpoint: ResourceURL("http://bucket/")!))
        let tier = TierPlace(address, name: "shared", seal: TierSeal(key: nil, bucket: address.name)) { _ in
            TierConnection(bucket) {}
        }
        try withServices(VolumeOptions(tier: tier)) { services, origin, _ in
            try body(services.origin, origin, bucket)
        }
    }

    @Test(arguments: Place.allCases)
    func aRequestIsPromotedAndCancelledWhereItIs(place: Place) throws {
        try withTier { layers, origin, bucket in
            let ends = Ends()
            let handle = layers.start(Self.request, ends)
            #expect(eventually { bucket.paths.count == 1 })
            if place == .origin {
                bucket.fail(0, .status(404, retryAfter: nil))
                #expect(eventually { origin.paths.count == 1 })
            }
            let asked = place == .bucket ? bucket : origin
            handle.promote()
            #expect(eventually { asked.isPromoted(0) })
            handle.cancel()
            #expect(ends.first == .cancelled)
            #expect(asked.isCancelled(0))
            // It has ended.
            handle.resume()
            handle.promote()
            handle.cancel()
            origin.turn()
            #expect(ends.all == [.cancelled])
        }
    }

    @Test func aRequestThatAReaderHasJoinedIsHeldBackNowhere() throws {
        try withTier { layers, origin, bucket in
            var request = Self.request
            request.limit = RateLimit(RateSchedule(rate: 1000)) { 0 }
            let ends = Ends()
            let handle = layers.start(request, ends)
            #expect(eventually { bucket.paths.count == 1 })
            #expect(bucket.request(0).limit != nil)
            handle.promote()
            bucket.turn()
            bucket.fail(0, .status(404, retryAfter: nil))
            #expect(eventually { origin.paths.count == 1 })
            #expect(origin.request(0).limit == nil && origin.request(0).isDemanded)
            handle.cancel()
            #expect(ends.first == .cancelled)
        }
    }

    @Test func aRequestThatIsCancelledBeforeItsStartAsksNoLayer() throws {
        try withTier { layers, origin, bucket in
            let (handle, ends) = (RequestHandle(), Ends())
            handle.cancel()
            layers.start(handle, Self.request, ends)
            #expect(ends.first == .cancelled)
            #expect(origin.paths.isEmpty && bucket.paths.isEmpty)
        }
    }

    @Test func aRequestThatAnotherThreadCancelsAroundItsStartEndsOnce() throws {
        try withTier { layers, origin, bucket in
            for _ in 0..<60 {
                let (handle, ends) = (RequestHandle(), Ends())
                let canceller = try #require(Thread("canceller") { handle.cancel() })
                layers.start(handle, Self.request, ends)
                canceller.join()
                try #require(ends.first == .cancelled)
                origin.turn()
                #expect(ends.all == [.cancelled])
            }
        }
    }

    @Test func aRequestThatMovesToAnotherPlaceTakesItsMarksAlong() throws {
        try withServices(VolumeOptions(mirrors: [ResourceURL("http://b/")!])) { services, origin, _ in
            let ends = Ends()
            let request = OriginRequest(url: Self.film, range: ByteRange(0, 4), isDemanded: false, reason: .head)
            let handle = services.origin.start(request, ends)
            #expect(eventually { origin.paths.count == 1 })
            handle.promote()
            origin.fail(0, .status(503, retryAfter: nil))
            #expect(eventually { origin.paths.count == 2 })
            #expect(origin.isPromoted(1))
            handle.cancel()
            #expect(ends.first == .cancelled)
            origin.turn()
            #expect(ends.all == [.cancelled] && origin.paths.count == 2)
        }
    }
}

/// Keeps how a request ends.
private final class Ends: OriginReceiver {
    private let ends = Monitor<[OriginFailure?]>([])

    var all: [OriginFailure?] { ends.withLock { $0 } }
    /// nil if it did not end within half a minute.
    var first: OriginFailure?? { ends.wait(atMost: .seconds(30)) { $0.first } }

    func head(_: ResponseHead) -> OriginFailure? { nil }
    func body(_: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_ failure: OriginFailure?) { ends.withLock { $0.append(failure) } }
}
