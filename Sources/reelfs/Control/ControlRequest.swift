import FoundationEssentials
import Glibc
import ReelCore
import ReelVolume

/// A request to a daemon: of a command over the control socket, or of an HTTP client.
///
/// Paths are inside the mount, without a leading `/`; an empty one stands for all of it. A device is the number of a
/// mount, as in mountinfo.
enum ControlRequest {
    case status
    case list
    case pin(String)
    case unpin(String)
    case evict(String)
    case explain(String)
    case refresh(String, isRecursive: Bool)
    case prune(Pruning)
    /// All of the cache, if there is no path.
    case verify(String? = nil, repairs: Bool)
    /// One in the background goes on without its client, whose end cancels any other.
    case prefetch(PrefetchRequest)
    case cancelPrefetch(String)
    /// The prefetch of this number alone.
    case cancelNumber(Int)
    /// - device: the mount that the user names, nil if it is all.
    case offline(Bool, device: String? = nil)
    case limitRate(RateSchedule)
    /// Two descriptors come with it: the mount's `/dev/fuse`, and the pipe of its watcher; without them the daemon
    /// reports only whether it would take the mount.
    case attach(Handover)
    case detach(String)
    /// The answer comes when others are left; with the last mount the connection ends, once the cache is written.
    case awaitUnmount(String)
    case describe
    /// - format: the form of ``LeftMount`` that the client knows.
    case leave(format: Int? = LeftMount.format)

    /// How much `prune` removes.
    enum Pruning {
        /// The size to which it reduces the cache.
        case to(Int64)
        case freeing(Int64)
    }

    /// What a request takes of the daemon while it is performed.
    enum Cost {
        /// The answer is known, or the client waits for an end: it is answered while the mount ends, too.
        case none
        /// It waits for nothing long, or its work is done elsewhere: long jobs do not hold it up.
        case little
        /// It may take long, and occupies the disk.
        case long
    }

    var cost: Cost {
        switch self {
        case .status, .describe, .awaitUnmount, .leave: .none
        case .prefetch, .cancelPrefetch, .cancelNumber, .offline, .limitRate, .attach, .detach: .little
        case .list, .pin, .unpin, .evict, .explain, .refresh, .prune, .verify: .long
        }
    }

    /// Whether a program could name this path to the kernel. A longer one would only cost time for each of its parts.
    static func isNameable(_ path: String) -> Bool { path.utf8.count < Int(PATH_MAX) }
    static let tooLong = "the path is longer than \(PATH_MAX - 1) bytes"
}

/// On the wire a request is one JSON object a line, whose `version` is 1. A daemon ignores members that it does not
/// know, and refuses an unknown command with a sentence.
extension ControlRequest: Codable {
    enum Command: String, CaseIterable {
        case status, list, pin, unpin, evict, refresh, prune, verify, explain, prefetch
        case cancelPrefetch = "cancel-prefetch"
        case offline
        case limitRate = "limit-rate"
        case attach
        case awaitUnmount = "await-unmount"
        case detach, describe, leave
    }

    private enum Key: String, CodingKey {
        case version, command, path, bytes, freeing, repairs, isRecursive, paths, pins, isBackground, patience
        case isOffline, number, schedule, handover, device, format
    }

    /// - Throws: a sentence for the client.
    init(line: some Sequence<UInt8>) throws(RequestFailure) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(line))
        } catch {
            throw error as? RequestFailure ?? RequestFailure(status: 400, sentence: "the line is not a request")
        }
    }

    init(from decoder: any Decoder) throws {
        let line = try decoder.container(keyedBy: Key.self)
        let version = try line.decode(Int.self, forKey: .version)
        let name = try line.decode(String.self, forKey: .command)
        guard version == 1, let command = Command(rawValue: name) else {
            let known = Command.allCases.map(\.rawValue).joined(separator: ", ")
            throw RequestFailure(status: 400, sentence: "this daemon knows only version 1 and \(known)")
        }
        func member<Value: Decodable>(_ key: Key) throws -> Value? { try line.decodeIfPresent(Value.self, forKey: key) }
        func needed<Value>(_ value: Value?, _ lack: String) throws -> Value {
            guard let value else { throw RequestFailure(status: 400, sentence: lack) }
            return value
        }
        func checked(_ path: String) throws -> String { try needed(Self.isNameable(path) ? path : nil, Self.tooLong) }
        func path() throws -> String { try checked(needed(member(.path), Self.lacksPath)) }
        func device() throws -> String { try needed(member(.device), Self.lacksMount) }
        func rate(_ text: String) throws -> RateSchedule {
            try needed(RateSchedule(text), "the request has no rate that can be read")
        }
        // 0: without end.
        func patience(_ seconds: Int?) throws -> Duration? {
            guard let seconds else { return PrefetchRequest.usualPatience }
            guard seconds >= 0 else { throw RequestFailure(status: 400, sentence: "a patience is not negative") }
            return seconds == 0 ? nil : .seconds(seconds)
        }
        switch command {
        case .status: self = .status
        case .list: self = .list
        case .pin: self = .pin(try path())
        case .unpin: self = .unpin(try path())
        case .evict: self = .evict(try path())
        case .explain: self = .explain(try path())
        case .refresh: self = .refresh(try path(), isRecursive: try member(.isRecursive) ?? false)
        case .prune:
            let freeing: Int64? = try member(.freeing)
            let bytes = try needed(freeing ?? member(.bytes), Self.lacksPath)
            guard bytes >= 0 else { throw RequestFailure(status: 400, sentence: Self.lacksPath) }
            self = .prune(freeing == nil ? .to(bytes) : .freeing(bytes))
        case .verify: self = .verify(try member(.path).map(checked), repairs: try member(.repairs) ?? false)
        case .prefetch:
            let paths: [String] = try member(.paths) ?? member(.path).map { [$0] } ?? []
            self = .prefetch(
                PrefetchRequest(
                    paths: try needed(paths.isEmpty ? nil : paths, "the request lacks paths").map(checked),
                    pins: try member(.pins) ?? false, rate: try member(.schedule).map(rate),
                    isBackground: try member(.isBackground) ?? false,
                    patience: try patience(member(.patience))))
        case .cancelPrefetch:
            let number: Int? = try member(.number)
            self = try number.map { .cancelNumber($0) } ?? .cancelPrefetch(path())
        case .offline:
            let isOffline: Bool? = try member(.isOffline)
            let lack = "the request does not tell whether to be offline"
            self = .offline(try needed(isOffline, lack), device: try member(.device))
        case .limitRate: self = .limitRate(try rate(member(.schedule) ?? ""))
        case .attach: self = .attach(try needed(member(.handover), Self.lacksMount))
        case .detach: self = .detach(try device())
        case .awaitUnmount: self = .awaitUnmount(try device())
        case .describe: self = .describe
        case .leave: self = .leave(format: try member(.format))
        }
    }

    private static let lacksPath = "the request lacks a path, or a number of bytes that is not negative"
    private static let lacksMount = "the request lacks the mount"

    func encode(to encoder: any Encoder) throws {
        let (command, members) = members
        var line = encoder.container(keyedBy: Key.self)
        try line.encode(1, forKey: .version)
        try line.encode(command.rawValue, forKey: .command)
        for case (let key, let value?) in members { try line.encode(value, forKey: key) }
    }

    private var members: (Command, [(Key, (any Encodable)?)]) {
        switch self {
        case .status: (.status, [])
        case .list: (.list, [])
        case .pin(let path): (.pin, [(.path, path)])
        case .unpin(let path): (.unpin, [(.path, path)])
        case .evict(let path): (.evict, [(.path, path)])
        case .explain(let path): (.explain, [(.path, path)])
        case .refresh(let path, let isRecursive): (.refresh, [(.path, path), (.isRecursive, isRecursive)])
        case .prune(.to(let bytes)): (.prune, [(.bytes, bytes)])
        case .prune(.freeing(let bytes)): (.prune, [(.freeing, bytes)])
        case .verify(let path, let repairs): (.verify, [(.path, path), (.repairs, repairs)])
        case .prefetch(let asked):
            (
                .prefetch,
                [
                    (.paths, asked.paths), (.pins, asked.pins), (.schedule, asked.rate?.text),
                    (.isBackground, asked.isBackground),
                    (
                        .patience,
                        asked.patience == PrefetchRequest.usualPatience ? nil : Int(asked.patience?.seconds ?? 0)
                    ),
                ]
            )
        case .cancelPrefetch(let path): (.cancelPrefetch, [(.path, path)])
        case .cancelNumber(let number): (.cancelPrefetch, [(.number, number)])
        case .offline(let isOffline, let device): (.offline, [(.isOffline, isOffline), (.device, device)])
        case .limitRate(let rate): (.limitRate, [(.schedule, rate.text)])
        case .attach(let handover): (.attach, [(.handover, handover)])
        case .detach(let device): (.detach, [(.device, device)])
        case .awaitUnmount(let device): (.awaitUnmount, [(.device, device)])
        case .describe: (.describe, [])
        case .leave(let format): (.leave, [(.format, format)])
        }
    }
}
