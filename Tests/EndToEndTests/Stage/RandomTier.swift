import TestKit

/// The bucket between the mounts of a random origin and that origin, with trouble of its own.
struct RandomTier {
    /// More than the cache holds, and little enough to stand in memory for hours.
    private static let most = 64 << 20
    /// What a test signs with; the bucket looks at no signature.
    static let keys = ["AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"]

    private var bucket: ScriptedBucket

    init() throws { bucket = try ScriptedBucket() }

    var options: [String] { ["--tier", "s3://shared/films", "--endpoint", bucket.server.url("/").text] }

    /// GETs and PUTs since `renew`.
    var requests: (reads: Int, writes: Int) { (bucket.count("GET"), bucket.count("PUT")) }

    /// Trouble of one kind begins, or of none. - Returns: which.
    func storm(_ random: inout SeededGenerator) -> String {
        let count = [0, 1000, 65_536, 200_001].randomElement(using: &random)!
        let faults: [ScriptedBucket.Fault?] = [
            nil, nil, .status(403), .status(503), .silent, .stallAfter(count), .drip, .resetAfter(count), .wrongBytes,
            .swapped, .truncated, .errorOf(2), .dropsWrites, .knowsNoCondition, .ignoresConditions,
        ]
        bucket.fault = faults.randomElement(using: &random)!
        bucket.refusesWrites = Int.random(in: 0..<6, using: &random) == 0
        return (bucket.fault.map { "\($0)" } ?? "well") + (bucket.refusesWrites ? " refusesWrites" : "")
    }

    /// Whatever stands in it from before.
    func calm() { (bucket.fault, bucket.refusesWrites) = (nil, false) }

    /// Now and then some objects go. The bucket chooses which: their names are those of the program.
    func loseSome(_ random: inout SeededGenerator) {
        guard Int.random(in: 0..<4, using: &random) == 0 else { return }
        let share = Int.random(in: 1...3, using: &random)
        bucket.change { objects in
            let lost = objects.keys.sorted().enumerated().filter { $0.offset % 3 < share }
            for name in lost { objects[name.element] = nil }
        }
    }

    /// Lets go of what the server has noted, and of all objects where they are many.
    mutating func renew() throws {
        bucket.stop()
        bucket.change { objects in
            if objects.values.reduce(0, { $0 + $1.count }) > Self.most { objects = [:] }
        }
        bucket = try ScriptedBucket(inPlaceOf: bucket)
    }

    func stop() { bucket.stop() }
}
