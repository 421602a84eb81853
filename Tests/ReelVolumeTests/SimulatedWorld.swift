import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelHTTP
import ReelSources
import ReelThreads
import TestKit

@testable import ReelVolume

/// Mounts without a kernel in virtual time, and servers that are functions: what takes long here takes long on every
/// machine, and on none because it is busy.
final class SimulatedWorld {
    /// One mount, called as the kernel would.
    struct Mount: KernelCaller {
        let volume: Volume
        var filesystem: any Filesystem { volume }
    }

    private let servers: [String: SimulatedTransport.Server]
    private let place: String
    private var count = 0
    private var ends: [() -> Void] = []

    private init(_ servers: [String: SimulatedTransport.Server], _ place: String) {
        (self.servers, self.place) = (servers, place)
    }

    /// Runs `body` as the first thread of a simulation.
    /// - Parameter servers: by `ResourceURL.origin`; one that gives nil refuses the connection.
    static func run<Value>(
        _ servers: [String: SimulatedTransport.Server], _ body: (SimulatedWorld) throws -> Value
    ) throws -> Value {
        try withTemporaryDirectory { place in
            var value: Value?
            let world = SimulatedWorld(servers, place)
            defer { for number in 0..<world.count { removeTree(place + "/cache\(number)") } }
            _ = try Simulation.run(seed: 1, .random(0.1)) {
                defer { for end in world.ends { end() } }
                value = try body(world)
            }
            return value!
        }
    }

    /// A mount with a cache and a transport of its own, which ends with the simulation.
    /// - Parameter wire: a round trip, and the bytes a second that it carries of all answers together; nil if each
    ///   comes as `transport` says.
    /// - Parameter remembered: puts into the cache what an earlier process knew of the source; it is opened from there,
    ///   without a request.
    func mount(
        _ source: String, _ options: VolumeOptions, cap: Int64 = 1 << 30, finder: (any PlaceFinder)? = nil,
        wire: (trip: Duration, capacity: Int64)? = nil, remembered: ((Store) -> Void)? = nil
    ) throws -> Mount {
        let origin = Self.transport(servers, wire: wire)
        count += 1
        let store = try Store(
            directory: place + "/cache\(count - 1)", source: source, limits: CacheLimits(cap: cap),
            owner: "/nowhere", cipher: nil)
        ends.append {
            origin.shutdown()
            store.close()
        }
        remembered?(store)
        let volume = try Volume.open(
            source, origin: origin, store: store, options: options,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, finder: finder, asks: remembered == nil)
        ends.insert({ volume.shutdown() }, at: 0)
        return Mount(volume: volume)
    }

    /// A line that is as quick as servers are near: what is slow is what a test made slow.
    private static func transport(
        _ servers: [String: SimulatedTransport.Server], _ line: Line = Line(),
        wire: (trip: Duration, capacity: Int64)? = nil
    ) -> SimulatedTransport {
        SimulatedTransport(
            servers, line, pace: (latency: wire?.trip ?? .milliseconds(10), bytesPerSecond: 20_000_000),
            capacity: wire?.capacity, seed: 1)
    }

    /// A bucket at `http://bucket`.
    func tier() -> TierPlace {
        let address = S3Address("s3://shared/films", endpoint: ResourceURL("http://bucket/"))!
        let servers = servers
        return TierPlace(address, name: "s3://shared/films", seal: TierSeal(key: nil, bucket: address.name)) { line in
            let transport = Self.transport(servers, line)
            return TierConnection(transport) { transport.shutdown() }
        }
    }

    /// Lets time pass until `condition` holds, ten minutes at most. - Returns: whether it held.
    func eventually(_ condition: () -> Bool) -> Bool {
        for _ in 0..<1200 {
            if condition() { return true }
            Simulation.sleep(.milliseconds(500))
        }
        return condition()
    }
}
