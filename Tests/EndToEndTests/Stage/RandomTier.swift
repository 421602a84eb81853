import TestKit

/// The bucket between the mounts of a random origin and that origin, with trouble of its own.
struct RandomTier {
    /// More than the cache holds, and little enough to stand in memory for hours.
    private static let most = 64 << 20
    /// What a test signs with; the bucket looks at no signature.
    static let keys = ["AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"]

    private var bucket: ScriptedBucket
    private var troubles: [String] = []

    init() throws { bucket = try ScriptedBucket() }

    var options: [String] { ["--tier", "s3://shared/films", "--endpoint", bucket.server.url("/").text] }

    /// Now and then trouble of another kind begins, or none, or some objects go. It begins well, as a mount asks
    /// nothing of a bucket for half a minute once that has failed.
    mutating func storm(_ random: inout SeededGenerator) {
        let count = [0, 1000, 65_536, 200_001].randomElement(using: &random)!
        let faults: [ScriptedBucket.Fault?] = [
            nil, nil, .status(403), .status(503), .silent, .stallAfter(count), .drip, .resetAfter(count), .wrongBytes,
            .swapped, .truncated, .errorOf(2), .dropsWrites, .knowsNoCondition, .ignoresConditions,
        ]
        let fault = faults.randomElement(using: &random)!
        let refusesWrites = Int.random(in: 0..<6, using: &random) == 0
        let share = Int.random(in: 1...3, using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1:
            (bucket.fault, bucket.refusesWrites) = (fault, refusesWrites)
            troubles.append((fault.map { "\($0)" } ?? "well") + (refusesWrites ? " refusesWrites" : ""))
        case 2, 3:
            // Their names are those of the program.
            bucket.change { objects in
                for name in objects.keys.sorted().enumerated() where name.offset % 3 < share {
                    objects[name.element] = nil
                }
            }
            troubles.append("lost \(share) of 3")
        default: break
        }
    }

    /// From now on it is well, with whatever stands in it. - Returns: what happened since the last time.
    mutating func calm() -> String {
        defer { troubles = [] }
        (bucket.fault, bucket.refusesWrites) = (nil, false)
        return "\(bucket.count("GET")) GET, \(bucket.count("PUT")) PUT, \(troubles.joined(separator: ", "))"
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
