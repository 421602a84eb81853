import ReelCache
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What a tier in trouble costs the readers of a film, in virtual time. Never more than the second after which the
/// origin is asked beside it, and half of one for what that answers.
@Suite struct TierWaitTests {
    private static let longest = Duration.milliseconds(1500)

    /// A source with a film, and a bucket that is a tier for the mounts of it.
    private final class Fleet {
        let film = FileOrigin(length: 3 << 20 + 12_345)
        let bucket: ScriptedBucket
        let world: SimulatedWorld

        init(_ bucket: ScriptedBucket, _ world: SimulatedWorld) { (self.bucket, self.world) = (bucket, world) }

        func mount() throws -> SimulatedWorld.Mount {
            // Ten times as long as any wait that there should be.
            let options = VolumeOptions(timeout: .seconds(15), prebuffer: 0, tier: world.tier())
            return try world.mount("http://origin/film.mkv", options)
        }

        var slices: Int { Int((film.version.length + TierSlice.size - 1) / TierSlice.size) }
    }

    /// A bucket that has all of the film, as one mount has written it.
    /// - Parameter isAway: the bucket refuses connections.
    private func withFilled(_ isAway: Shared<Bool> = Shared(false), _ body: (Fleet) throws -> Void) throws {
        let bucket = ScriptedBucket(serverless: ())
        let film = Shared<FileOrigin?>(nil)
        try SimulatedWorld.run([
            "http://origin": { film.value?.answer($0) }, "http://bucket": { isAway.value ? nil : bucket.answer($0) },
        ]) { world in
            let fleet = Fleet(bucket, world)
            film.set(fleet.film)
            let first = try fleet.mount()
            try first.play(fleet.film)
            try #require(world.eventually { bucket.objects.count == fleet.slices })
            try #require(world.eventually { first.volume.status().tier!.writtenBytes == fleet.film.version.length })
            try body(fleet)
        }
    }

    @Test(arguments: [
        nil, ScriptedBucket.Fault.status(503), .status(403), .silent, .stallAfter(300_000), .drip,
        .resetAfter(200_000), .wrongBytes, .swapped,
    ])
    func whateverTheTierAnswersNoReadWaitsLong(_ fault: ScriptedBucket.Fault?) throws {
        try withFilled { fleet in
            fleet.bucket.fault = fault
            let before = fleet.bucket.count("GET")
            let second = try fleet.mount()
            let longest = try second.play(fleet.film)
            #expect(longest < Self.longest, "\(longest)")
            let tier = try #require(second.volume.status().tier)
            switch fault {
            case nil: #expect(!tier.isAvoided && tier.readBytes > 2 << 20)
            case .wrongBytes, .swapped: #expect(tier.damagedObjects > 0)
            default:
                #expect(tier.isAvoided)
                // Those that were under way, and no further ones.
                #expect(fleet.bucket.count("GET") - before < 12)
            }
        }
    }

    @Test func noReadWaitsLongForATierThatRefusesConnections() throws {
        let isAway = Shared(false)
        try withFilled(isAway) { fleet in
            isAway.set(true)
            let second = try fleet.mount()
            let longest = try second.play(fleet.film)
            #expect(longest < Self.longest, "\(longest)")
            #expect(second.volume.status().tier?.isAvoided == true)
        }
    }

    @Test(arguments: [Int64(0), 3600])
    func aClaimWhoseMountHasGoneCostsOneWaitOrNone(_ age: Int64) throws {
        try withFilled { fleet in
            // The claim is left.
            let bucket = fleet.bucket
            bucket.change { objects in for name in bucket.sliceNames(objects) { objects[name] = nil } }
            bucket.age(by: age)
            let second = try fleet.mount()
            let (start, looks) = (now(), bucket.looks)
            let longest = try second.play(fleet.film)
            #expect(longest < Self.longest, "\(longest)")
            // One that is old is looked at, taken over, and looked at once more.
            if age == 0 { #expect(now() - start < .seconds(6)) } else { #expect(bucket.looks == looks + 2) }
            #expect(fleet.world.eventually { bucket.objects.count == fleet.slices })
        }
    }

    /// A service that kept conditions may lose that, as another one takes its place.
    @Test func aClaimIsSettledSoonAlsoWhereNoConditionIsKeptAnyMore() throws {
        let bucket = ScriptedBucket(serverless: ())
        let film = FileOrigin(length: 300_000)
        try SimulatedWorld.run([
            "http://origin": { film.answer($0) }, "http://bucket": { bucket.answer($0) },
        ]) { world in
            let options = VolumeOptions(timeout: .seconds(15), prebuffer: 0, tier: world.tier())
            let claims = try #require(world.mount("http://origin/film.mkv", options).volume.services.tier).claims
            func time(_ name: String) throws -> Duration {
                let (start, isSettled) = (now(), Shared(false))
                claims.find(name, for: RequestHandle(), isDemanded: false) { _ in isSettled.set(true) }
                try #require(world.eventually { isSettled.value })
                return now() - start
            }
            Simulation.sleep(.seconds(600))
            #expect(try time("one") < .seconds(1))
            #expect(claims.condition == .kept)
            // As where keys have expired: it says nothing of conditions.
            bucket.fault = .status(400)
            _ = try time("two")
            #expect(claims.condition == .kept)
            bucket.fault = .knowsNoCondition
            let late = try time("three")
            #expect(late < .seconds(1), "\(late)")
        }
    }
}
