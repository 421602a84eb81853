import ReelVolume

/// What a mount point, and the daemon behind it, say.
struct MountFacts {
    var mountpoint = ""
    var daemon = Mountpoint.Daemon.alive
    /// What the daemon says of itself; nil: it does not talk to this user.
    var status: MountStatus?
    /// Mounted by this user.
    var isOwn = true
}

extension Diagnosis {
    mutating func add(_ facts: MountFacts) {
        let place = shown(facts.mountpoint)
        switch facts.daemon {
        case .gone:
            return bad(
                "the daemon of \(place) has ended and the mount is dead (ENOTCONN)",
                "Run `reelfs umount \(place)`, or mount it again.")
        case .silent:
            return bad(
                "the daemon of \(place) does not answer: it is stopped, or its disk hangs",
                "`reelfs umount --lazy \(place)` frees the directory.")
        case .alive: break
        }
        guard let status = facts.status, let volume = status.volume else {
            guard facts.isOwn else {
                return note("\(place) is mounted; its daemon talks only to the user who mounted it")
            }
            return bad(
                "\(place) is mounted, but its daemon does not report its status",
                "If files there cannot be read: `reelfs umount --lazy \(place)`, and mount it again.")
        }
        ok("\(place) is mounted, its daemon (pid \(status.pid)) answers")
        addCache(of: volume)
        switch status.passthrough {
        case true?: ok("passthrough: the kernel reads complete files itself")
        case false?:
            note("no passthrough: complete files are read through reelfs (needs root, a recent kernel and libfuse)")
        case nil: break
        }
        for outage in volume.outages.prefix(2) {
            bad(
                "\(shown(outage.origin)) is offline (\(outage.kind)); cached data can be read",
                "The mount reconnects by itself.")
        }
        if let first = volume.staleDirectories.first {
            let number = volume.staleDirectories.count
            let name = first.path.isEmpty ? "/" : first.path
            note(
                "\(number) director\(number == 1 ? "y shows its" : "ies show their") last good listing: \(shown(name)) "
                    + "(\(first.trouble))")
        }
    }

    private mutating func addCache(of volume: VolumeStatus) {
        let size = "\(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))"
        if let failure = volume.cacheFailure {
            bad(
                "the cache cannot be written: \(failure)",
                "Free space on its disk, or repair the disk. Reads continue, and the mount recovers by itself.")
        } else if volume.cacheCap == 0 {
            bad("the cache has no room on its disk", "Free some space; the mount recovers by itself.")
        } else {
            ok("cache: \(size)")
        }
        if volume.speculative > 0 { ok("origin: \(fetchedText(volume))") }
        if volume.damagedBlocks > 0 {
            note(
                "\(count(Int(volume.damagedBlocks), "damaged block")) of the cache found and fetched again",
                "Run `reelfs cache verify` to check the whole cache, and check the disk.")
        }
    }
}
