import ReelCore
import ReelVolume

/// The facts of a mount and its daemon.
struct MountFacts {
    var mountpoint = ""
    var health = Mountpoint.Health.alive
    /// The daemon's own report, nil if it does not answer this user.
    var status: MountStatus?
    /// Mounted by this user.
    var isOwn = true
}

extension Diagnosis {
    /// Judges the state of a mount.
    mutating func add(_ facts: MountFacts) {
        let place = shown(facts.mountpoint)
        switch facts.health {
        case .dead:
            return bad(
                "the daemon of \(place) has ended and the mount is dead (ENOTCONN)",
                "Run `reelfs umount \(place)`, or mount it again.")
        case .silent:
            return bad(
                "the daemon of \(place) does not answer: it is stopped, or its disk hangs",
                "Run `reelfs umount --lazy \(place)` to free the directory.")
        case .alive: break
        }
        guard let status = facts.status, let volume = status.volume else {
            guard facts.isOwn else {
                return note("\(place) is mounted; its daemon answers only the user who mounted it")
            }
            return bad(
                "\(place) is mounted, but its daemon does not report its status",
                "If files there cannot be read, run `reelfs umount --lazy \(place)` and mount it again.")
        }
        ok("\(place) is mounted, its daemon (pid \(status.pid)) answers")
        if let verdict = volume.verdict, verdict.word != .well, verdict.word != .away {
            // The next step is this command.
            let isOwn = !["origin", "login", nil].contains(verdict.culprit)
            let step = isOwn ? nextStep(verdict, place, isCommanded: volume.isOffline == true) : nil
            bad(verdictText(verdict), step ?? "`reelfs status \(place)` and `reelfs explain FILE` show more.")
        }
        addCache(of: volume)
        if status.volume?.isEncrypted == true {
            ok("the cache is encrypted: complete files are read through reelfs, without passthrough")
        } else if status.passthrough == true {
            ok("passthrough: the kernel reads complete files itself")
        }
        if status.passthrough == false {
            note("no passthrough: complete files are read through reelfs (needs root, a recent kernel and libfuse)")
        }
        if let tier = volume.tier, let trouble = tier.trouble {
            bad(
                "the tier \(shown(tier.name)): \(printable(trouble)); mounts go on without it",
                "Check the bucket, its endpoint, and what its keys may do.")
        }
        for outage in volume.outages.prefix(2) {
            bad(
                "\(shown(outage.origin)) is offline (\(outage.kind)); cached data can be read",
                "The mount reconnects by itself.")
        }
        for source in (volume.closedSources ?? []).prefix(4) {
            guard let trouble = source.trouble else { continue }
            bad("\(shown(source.path)) shows nothing: \(trouble)", "The next look at the folder tries again.")
        }
        if let stale = staleText(volume) { note("the last good listing is shown for \(stale.count): \(stale.first)") }
    }

    private mutating func addCache(of volume: VolumeStatus) {
        if let failure = volume.cacheFailure {
            bad(
                "the cache cannot be written: \(failure)",
                "Free space on its disk, or repair the disk. Reads go on, and the mount recovers by itself, or by "
                    + "`reelfs restart` if its disk was like that when it began.")
        } else if volume.cacheCap == 0 {
            bad("the cache has no room on its disk", "Free some space; the mount recovers by itself.")
        } else {
            ok("cache: \(humanSize(volume.cacheUsed)) of \(humanSize(volume.cacheCap))")
        }
        if volume.speculative > 0 { ok("origin: \(fetchedText(volume))") }
        if volume.damagedBlocks > 0 {
            note(
                "\(count(Int(volume.damagedBlocks), "damaged block")) of the cache found and fetched again",
                "Run `reelfs cache verify` to check the whole cache, and check the disk.")
        }
    }
}
