import FoundationEssentials
import ReelVolume

/// A request over the control socket: one JSON object a line. `version` is 1; a daemon refuses an unknown request with
/// a sentence.
///
/// One line answers a request, or several: each but the last has `more`.
struct ControlRequest: Codable {
    var version = 1
    /// `status`, `list`, `pin`, `unpin`, `evict`, `prune`, `verify` or `explain`.
    var command: String
    /// Inside the mount, without a leading `/`; empty for all of it. Of `pin`, `unpin`, `evict`, `verify`.
    var path: String?
    /// The size to which `prune` reduces the cache.
    var bytes: Int64?
    /// Of `verify`.
    var repairs: Bool?
}

/// A line of an answer to a ``ControlRequest``.
struct ControlAnswer: Codable {
    var version = 1
    /// A sentence; nil on success.
    var error: String?
    /// Of `status`.
    var mount: MountStatus?
    /// Another line follows.
    var more: Bool?
    var progress: MaintenanceProgress?
    /// Of `list`: the next ones.
    var files: [CachedFile]?
    /// Of `list`, at its end.
    var cache: CacheStatus?
    var report: MaintenanceReport?
    /// Of `explain`.
    var explanation: Explanation?
}

/// One mount, as `reelfs status` shows it.
struct MountStatus: Codable {
    /// Without password and query.
    var source: String
    var mountpoint: String
    var pid: Int32
    /// Whether the kernel reads complete files itself; nil: not known yet.
    var passthrough: Bool?
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
