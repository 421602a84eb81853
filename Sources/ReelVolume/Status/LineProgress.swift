import ReelCore

/// What a mount's line has brought since the mount began, and what its players need: little enough to be asked for each
/// second.
package struct LineProgress: Equatable, Sendable {
    /// Bytes of all bodies from origins.
    package var bytes: Int64 = 0
    /// Bytes a second that all players together need.
    package var needs: Int64 = 0
    package var stalls = VolumeStatus.Stalls(origin: 0, queue: 0, disk: 0)

    package init() {}

    /// The stalls that ended after an earlier look.
    package func stalls(since earlier: LineProgress) -> VolumeStatus.Stalls {
        let (new, old) = (stalls, earlier.stalls)
        return VolumeStatus.Stalls(
            origin: max(0, new.origin &- old.origin), queue: max(0, new.queue &- old.queue),
            disk: max(0, new.disk &- old.disk))
    }

    static func += (sum: inout LineProgress, part: LineProgress) {
        sum.bytes &+= part.bytes
        sum.needs &+= part.needs
        sum.stalls += part.stalls
    }
}

extension VolumeStatus.Stalls {
    static func += (sum: inout Self, part: Self) {
        sum.origin &+= part.origin
        sum.queue &+= part.queue
        sum.disk &+= part.disk
    }
}

extension Volume {
    package func lineProgress() -> LineProgress {
        var progress = LineProgress()
        progress.bytes = bytesFromOrigin
        progress.needs = files.all.reduce(0) { $0 &+ ($1.playersNeed ?? 0) }
        progress.stalls = services.counters.stalls
        return progress
    }

    /// Bytes of all bodies: of files, listings and requests for information.
    var bytesFromOrigin: Int64 {
        let counters = services.counters
        return counters.demanded.load(ordering: .relaxed) + counters.speculative.load(ordering: .relaxed)
            - (services.tier?.readBytes ?? 0)
    }
}
