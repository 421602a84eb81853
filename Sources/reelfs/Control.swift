import FoundationEssentials
import ReelVolume

/// What goes over the control socket: one JSON object a line, each way. `version` is 1.
struct ControlRequest: Codable {
    var version = 1
    var command: String
}

struct ControlAnswer: Codable {
    var version = 1
    /// A sentence; nil when all is well.
    var error: String?
    var mount: MountStatus?
}

/// What `reelfs status` shows of one mount.
struct MountStatus: Codable {
    /// Without password and query.
    var source: String
    var mountpoint: String
    var pid: Int32
    var volume: VolumeStatus?
    /// Why there is no `volume`: the daemon does not answer.
    var error: String?
}

func encodeLine(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return ((try? encoder.encode(value)).map { [UInt8]($0) } ?? Array("{}".utf8)) + [0x0A]
}

func decodeLine<Value: Decodable>(_ type: Value.Type, _ line: some Sequence<UInt8>) -> Value? {
    try? JSONDecoder().decode(type, from: Data(line))
}
