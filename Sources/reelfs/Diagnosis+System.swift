import ReelCache

/// What of the system decides whether this user can mount, and how files are then read.
struct SystemFacts {
    var isRoot = true
    /// What `UserMount` says is missing.
    var lack: String?
    /// CAP_SYS_ADMIN is in effect.
    var mayAdminister = true
    var isFirstUserNamespace = true
    /// `/etc/fuse.conf` lets ordinary users share their mounts.
    var allowsOther = false
    /// As uname(2) has it.
    var kernel = ""
    /// libfuse can ask for passthrough.
    var libraryHasPassthrough = true
}

/// What of a disk decides whether it can hold the cache.
struct CacheFacts {
    /// Of the cache.
    var path = ""
    /// Where a file was tried: the directory itself, or, as it does not exist yet, the nearest one above it.
    var folder = ""
    /// Why no file can be written there; an errno.
    var failure: Int32?
    /// Bytes, of those that an ordinary user may take.
    var free: Int64 = 0
    var total: Int64 = 0
    /// What the source at hand has there already, in bytes: it can make room for itself.
    var held: Int64 = 0
    /// Its name, where it is known.
    var fileSystem: String?
    /// Holes take no room, and can be punched.
    var hasHoles = true
}

extension Diagnosis {
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
        switch passthroughObstacle(facts) {
        case nil: ok("passthrough is possible: the kernel reads complete files itself")
        case let obstacle?: note("no passthrough: complete files are read through reelfs: \(obstacle)")
        }
    }

    private func passthroughObstacle(_ facts: SystemFacts) -> String? {
        if !facts.isRoot || !facts.mayAdminister { return "only root's mounts have it" }
        if !facts.isFirstUserNamespace { return "the kernel refuses it in a container with users of its own" }
        guard let version = kernelVersion(facts.kernel), version.major > 6 || version.major == 6 && version.minor >= 9
        else { return "it needs Linux 6.9, this is \(facts.kernel)" }
        return facts.libraryHasPassthrough ? nil : "it needs libfuse 3.13 or newer"
    }

    /// Less than that holds no head and tail of a few films.
    private static let leastRoom: Int64 = 64 << 20

    /// - Parameter limits: what the mount would ask for.
    mutating func add(_ facts: CacheFacts, _ limits: CacheLimits) {
        let place = "the cache \(shown(facts.path))"
        if let failure = facts.failure {
            let remedy = "Choose another directory with --cache-dir."
            return bad("\(place): nothing can be written to \(shown(facts.folder)) (\(reason(failure)))", remedy)
        }
        let disk = facts.fileSystem.map { " on \($0)" } ?? ""
        guard facts.hasHoles else {
            return bad(
                "\(place)\(disk): this filesystem has no holes, so nothing leaves a full cache",
                "Choose a directory on ext4, xfs, btrfs or tmpfs with --cache-dir.")
        }
        let floor =
            switch limits.minimumFree {
            case .bytes(let bytes): bytes
            case .percent(let percent): facts.total / 100 * Int64(percent)
            }
        let room = min(limits.cap, max(0, facts.held + facts.free - floor))
        if room < min(Self.leastRoom, limits.cap) {
            bad(
                "\(place)\(disk) has no room: \(humanSize(facts.free)) free, of which \(humanSize(floor)) stay free",
                "Make room, as by `reelfs cache prune`, or choose another directory with --cache-dir.")
        } else if room < limits.cap {
            note("\(place)\(disk) has room for \(humanSize(room)) of \(humanSize(limits.cap))")
        } else if facts.fileSystem == "tmpfs" {
            note("\(place)\(disk) is in memory: it ends with the next boot")
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
