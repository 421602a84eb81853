import ReelVolume

/// Why a request is refused, or has failed: one sentence.
struct RequestFailure: Error, Hashable {
    /// The status of an HTTP answer.
    var status = 409
    var sentence: String

    /// No listing has the path.
    var isUnlisted: Bool { status == 404 }
}

extension RequestFailure {
    init(_ failure: MaintenanceFailure) {
        self.init(status: failure.isUnlisted ? 404 : 409, sentence: failure.description)
    }
}

/// A line of an answer to a ``ControlRequest``. One line answers a request, or several: each but the last is of a case
/// that says so.
enum ControlAnswer {
    case done
    case failure(RequestFailure)
    /// The daemon does not serve a mount: a sentence.
    case refusal(String)
    case status(MountStatus)
    /// The first mount, with the options that were given.
    case description(Handover)
    /// The next mount; others follow. After the last line the connection ends once the cache is written and free.
    case left(LeftMount)
    /// Others follow.
    case progress(MaintenanceProgress)
    /// The next files of a list; others follow.
    case files([CachedFile])
    /// The end of a list.
    case cache(CacheStatus)
    case report(MaintenanceReport)
    case explanation(Explanation)
    /// How far a prefetch is; others follow.
    case prefetching(PrefetchStatus)
    case prefetch(PrefetchStatus)
    /// How many prefetches there were.
    case cancelled(Int)
    /// A line of another version of the program; others follow.
    case other

    static func error(_ sentence: String) -> ControlAnswer { .failure(RequestFailure(sentence: sentence)) }

    /// The sentence of a failure, nil if it is none.
    var error: String? { if case .failure(let failure) = self { failure.sentence } else { nil } }

    /// What the answer says, nil if that is of another type.
    func value<Value>() -> Value? { member?.value as? Value }

    /// Whether no other line follows.
    var isLast: Bool {
        switch self {
        case .left, .progress, .files, .prefetching, .other: false
        case .done, .failure, .refusal, .status, .description, .cache, .report, .explanation, .prefetch, .cancelled:
            true
        }
    }
}

/// On the wire a line is one JSON object, whose `version` is 1; each but the last has `more`.
extension ControlAnswer: Codable {
    /// In the order in which a reader looks for them.
    enum Key: String, CodingKey, CaseIterable {
        case error, refusal, mount, handover, left, progress, files, cache, report, explanation, prefetch, cancelled
        /// The error is that no listing has the path.
        case isUnlisted
        case version, more
    }

    init(from decoder: any Decoder) throws {
        let line = try decoder.container(keyedBy: Key.self)
        func value<Value: Decodable>(_ key: Key) throws -> Value { try line.decode(Value.self, forKey: key) }
        let isMore = try line.decodeIfPresent(Bool.self, forKey: .more) ?? false
        for key in try Key.allCases.filter({ try line.contains($0) && !line.decodeNil(forKey: $0) }) {
            switch key {
            case .error:
                let isUnlisted = try line.decodeIfPresent(Bool.self, forKey: .isUnlisted) ?? false
                self = .failure(RequestFailure(status: isUnlisted ? 404 : 409, sentence: try value(key)))
            case .refusal: self = .refusal(try value(key))
            case .mount: self = .status(try value(key))
            case .handover: self = .description(try value(key))
            case .left: self = .left(try value(key))
            case .progress: self = .progress(try value(key))
            case .files: self = .files(try value(key))
            case .cache: self = .cache(try value(key))
            case .report: self = .report(try value(key))
            case .explanation: self = .explanation(try value(key))
            case .prefetch: self = isMore ? .prefetching(try value(key)) : .prefetch(try value(key))
            case .cancelled: self = .cancelled(try value(key))
            case .isUnlisted, .version, .more: continue
            }
            return
        }
        self = isMore ? .other : .done
    }

    func encode(to encoder: any Encoder) throws {
        var line = encoder.container(keyedBy: Key.self)
        try line.encode(1, forKey: .version)
        if !isLast { try line.encode(true, forKey: .more) }
        if case .failure(let failure) = self, failure.isUnlisted { try line.encode(true, forKey: .isUnlisted) }
        if let (key, value) = member { try line.encode(value, forKey: key) }
    }

    private var member: (key: Key, value: any Encodable)? {
        switch self {
        case .done, .other: nil
        case .failure(let failure): (.error, failure.sentence)
        case .refusal(let sentence): (.refusal, sentence)
        case .status(let status): (.mount, status)
        case .description(let handover): (.handover, handover)
        case .left(let left): (.left, left)
        case .progress(let progress): (.progress, progress)
        case .files(let files): (.files, files)
        case .cache(let cache): (.cache, cache)
        case .report(let report): (.report, report)
        case .explanation(let explanation): (.explanation, explanation)
        case .prefetching(let status), .prefetch(let status): (.prefetch, status)
        case .cancelled(let count): (.cancelled, count)
        }
    }
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
    /// The file with the token that its calls want, nil if there is none.
    var tokenFile: String?
    /// The last requests that failed, the oldest first; nil if none did.
    var failures: [RequestRecord]?
    var volume: VolumeStatus?
    /// The user who mounted it, where its daemon answers no other.
    var mounter: UInt32?
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
