import FoundationEssentials
import Glibc
import ReelFuse
import ReelVolume

/// A request over the control socket: one JSON object a line. `version` is 1; a daemon refuses an unknown request with
/// a sentence.
///
/// One line answers a request, or several: each but the last has `more`.
struct ControlRequest: Codable {
    var version = 1
    /// `status`, `list`, `pin`, `unpin`, `evict`, `refresh`, `prune`, `verify`, `explain`, `prefetch`,
    /// `cancel-prefetch`, `offline`, `limit-rate`, `attach`, `detach`, `await-unmount`,
    /// `describe` or `leave`.
    var command: String
    /// Inside the mount, without a leading `/`; empty for all of it. For `pin`, `unpin`, `evict`, `refresh`,
    /// `verify`, `cancel-prefetch`.
    var path: String?
    /// The size to which `prune` reduces the cache.
    var bytes: Int64?
    /// Instead of that, how much goes.
    var freeing: Int64?
    /// For `verify`.
    var repairs: Bool?
    /// For `refresh`.
    var isRecursive: Bool?
    /// For `prefetch`, each like `path`.
    var paths: [String]?
    /// For `prefetch`: pin the files first.
    var pins: Bool?
    /// For `prefetch`: go on without this connection; its end cancels any other.
    var isBackground: Bool?
    /// For `offline`.
    var isOffline: Bool?
    /// For `limit-rate`, and for `prefetch` for itself, as the option has it.
    var schedule: String?
    /// For `attach`. Two descriptors come with it: the mount's `/dev/fuse`, and the pipe of its watcher; without them
    /// the daemon tells only whether it would take the mount.
    var handover: Handover?
    /// For `offline`, the mount that the user names; nil if it is all. For `detach`, the mount to end, and for
    /// `await-unmount`, the one whose end is waited for; as in mountinfo. The answer to the latter comes when others
    /// are left; with the last mount the connection ends, once the cache is written.
    var device: String?
    /// For `leave`: the form of ``LeftMount`` that the client knows.
    var format: Int?

    /// Whether a program could name this path to the kernel. A longer one would only cost time for each of its parts.
    static func isNameable(_ path: String) -> Bool { path.utf8.count < Int(PATH_MAX) }
    static let tooLong = "the path is longer than \(PATH_MAX - 1) bytes"
}

/// A mount that a daemon leaves to the next one, and what the kernel holds of it. Two descriptors come with it: the
/// mount's `/dev/fuse`, and the pipe of its watcher, if there is one.
struct LeftMount: Codable {
    /// The version of the format of all that is left.
    static let format = 1

    /// The directory of the source in the cache.
    var directory: String
    var mountpoint: String
    /// `major:minor`, as in mountinfo.
    var device: String?
    var user: UInt32
    var group: UInt32
    var umask: UInt32
    var isOnlyCached: Bool
    var hasWatcher: Bool
    var inheritance: Inheritance
}

/// A mount that another process has made, for the daemon that serves its source already.
struct Handover: Codable {
    /// The version of the program.
    var program = Program.version
    /// The source as given.
    var source: String
    var mountpoint: String
    /// `major:minor`, as in mountinfo.
    var device: String?
    var user: UInt32
    var group: UInt32
    var umask: UInt32
    /// The options that were given, as pairs of name and value; no value: the name alone.
    var options: [[String]]
    /// For `describe`: the service manager of the daemon, as in `NOTIFY_SOCKET`, nil if there is none.
    var manager: String?
}

/// A line of an answer to a ``ControlRequest``.
struct ControlAnswer: Codable {
    var version = 1
    /// A sentence; nil on success.
    var error: String?
    /// For `attach`: why the daemon does not serve the mount, a sentence.
    var refusal: String?
    /// The error is that no listing has the path.
    var isUnlisted: Bool?
    /// For `status`.
    var mount: MountStatus?
    /// For `describe`: the first mount, with the options that were given.
    var handover: Handover?
    /// For `leave`: the next one. After the last, the connection ends once the cache is written and free.
    var left: LeftMount?
    /// Another line follows.
    var more: Bool?
    var progress: MaintenanceProgress?
    /// For `list`: the next ones.
    var files: [CachedFile]?
    /// For `list`, at its end.
    var cache: CacheStatus?
    var report: MaintenanceReport?
    /// For `explain`.
    var explanation: Explanation?
    /// For `prefetch`: how far it is.
    var prefetch: PrefetchStatus?
    /// For `cancel-prefetch`: how many there were.
    var cancelled: Int?
}

/// One mount, as `reelfs status` shows it.
struct MountStatus: Codable {
    /// Without password and query.
    var source: String
    var mountpoint: String
    /// All mount points of the daemon, nil for only this one.
    var mountpoints: [String]?
    /// The mount points that show only what is cached, nil if none.
    var onlyCached: [String]?
    var pid: Int32
    /// Whether the kernel reads complete files itself, nil if not known yet.
    var passthrough: Bool?
    /// The address of its HTTP server, nil if there is none.
    var listening: String?
    var volume: VolumeStatus?
    /// Why there is no `volume`: the daemon does not answer.
    var error: String?
}

/// One source, as `reelfs cache list` shows it.
struct CacheStatus: Codable {
    /// Without password and query; nil where it is not known.
    var source: String?
    /// nil: nothing is mounted from it.
    var mountpoint: String?
    /// Bytes, the index included.
    var used: Int64 = 0
    /// nil without a mount.
    var cap: Int64?
    var files: [CachedFile] = []
    /// Why there is nothing to show.
    var error: String?
}

/// JSON with sorted keys, without control characters, and with a newline at its end.
func encodeLine(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return ((try? encoder.encode(value)).map { withEscapedControls([UInt8]($0)) } ?? Array("{}".utf8)) + [0x0A]
}

/// nil where the line is not such a value; it may come from any user.
func decodeLine<Value: Decodable>(_ type: Value.Type, _ line: some Sequence<UInt8>) -> Value? {
    try? JSONDecoder().decode(type, from: Data(line))
}
