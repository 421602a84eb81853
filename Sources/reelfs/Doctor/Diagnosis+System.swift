import ReelCache
import ReelCore

/// The facts of the system that decide whether this user can mount, and how files are then read.
struct SystemFacts {
    var isRoot = true
    /// The sentence of `UserMount` about a missing requirement, nil if all are met.
    var lack: String?
    /// Whether CAP_SYS_ADMIN is in effect.
    var mayAdminister = true
    var isFirstUserNamespace = true
    /// Whether `/etc/fuse.conf` lets ordinary users share their mounts.
    var allowsOther = false
    /// The release, as of uname(2).
    var kernel = ""
    /// Whether libfuse can request passthrough.
    var libraryHasPassthrough = true
}

/// The facts of a disk that decide whether it can hold the cache.
struct CacheFacts {
    /// The cache directory.
    var path = ""
    /// The directory in which a file was tried: the cache directory, or, if it does not exist yet, the nearest above
    /// it.
    var folder = ""
    /// Why no file can be written there; an errno.
    var failure: Int32?
    /// Bytes that an ordinary user can use.
    var free: Int64 = 0
    /// Bytes.
    var total: Int64 = 0
    /// Bytes that the source has cached there: it can evict them.
    var held: Int64 = 0
    /// `ext4`, nil if unknown.
    var fileSystem: String?
    /// Whether holes take no space, and can be punched.
    var hasHoles = true
}

extension Diagnosis {
    /// Judges whether this user can mount, and how files are read.
    mutating func add(_ facts: SystemFacts) {
        if let lack = facts.lack {
            bad(lack, nil)
        } else if facts.isRoot, !facts.mayAdminister {
            bad(
                "root without CAP_SYS_ADMIN cannot mount",
                "A container needs `--cap-add SYS_ADMIN --device /dev/fuse`.")
        } else if facts.isRoot {
            ok("root can mount, and other users have access")
        } else {
            let others = facts.allowsOther ? "allow_other gives other users access" : "other users have no access"
            ok("this user can mount, through fusermount3; \(others)")
        }
        if let obstacle = passthroughObstacle(facts) {
            note("no passthrough: complete files are read through reelfs: \(obstacle)")
        } else {
            ok("passthrough is possible: the kernel reads complete files itself")
        }
    }

    private func passthroughObstacle(_ facts: SystemFacts) -> String? {
        if !facts.isRoot || !facts.mayAdminister { return "only root's mounts have it" }
        if !facts.isFirstUserNamespace { return "the kernel refuses it in a container with its own user namespace" }
        guard let version = kernelVersion(facts.kernel), version.major > 6 || version.major == 6 && version.minor >= 9
        else { return "it needs Linux 6.9, this is \(facts.kernel)" }
        return facts.libraryHasPassthrough ? nil : "it needs libfuse 3.13 or newer"
    }

    /// Enough for the start and the end of a few films.
    private static let leastRoom: Int64 = 64 << 20

    /// Judges whether the cache has room. - Parameter limits: of the mount to be made.
    mutating func add(_ facts: CacheFacts, _ limits: CacheLimits) {
        let place = "the cache \(shown(facts.path))"
        if let failure = facts.failure {
            let remedy = "Choose another directory with --cache-dir."
            return bad("\(place): cannot write to \(shown(facts.folder)) (\(reason(failure)))", remedy)
        }
        let disk = facts.fileSystem.map { " on \($0)" } ?? ""
        guard facts.hasHoles else {
            return bad(
                "\(place)\(disk): this filesystem has no holes, so a full cache cannot evict data",
                "Choose a directory on ext4, xfs, btrfs or tmpfs with --cache-dir.")
        }
        let floor = limits.minimumFree.bytes(ofDisk: facts.total)
        let room = min(limits.cap, max(0, facts.held + facts.free - floor))
        if room < min(Self.leastRoom, limits.cap) {
            bad(
                "\(place)\(disk) has no room: \(humanSize(facts.free)) free, and \(humanSize(floor)) must stay free",
                "Free space, for instance with `reelfs cache prune`, or choose another directory with --cache-dir.")
        } else if room < limits.cap {
            note("\(place)\(disk) has room for \(humanSize(room)) of \(humanSize(limits.cap))")
        } else if facts.fileSystem == "tmpfs" {
            note("\(place)\(disk) is in memory: a reboot empties it")
        } else {
            ok("\(place)\(disk) has room for \(humanSize(room))")
        }
    }
}

/// `6.18.44-amd64` is 6 and 18.
func kernelVersion(_ release: String) -> (major: Int, minor: Int)? {
    let parts = release.split(separator: ".").prefix(2).map { Int($0.prefix { $0.isASCII && $0.isNumber }) }
    guard parts.count == 2, let major = parts[0], let minor = parts[1] else { return nil }
    return (major, minor)
}
