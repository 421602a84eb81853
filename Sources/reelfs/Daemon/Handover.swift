import ReelFuse

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
    /// The schedule, as `RateSchedule` has it; nil from a program that does not leave it.
    var limitRate: String?
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
    /// For `describe`: `LeftEnvironment` of the daemon; nil from a program that does not tell.
    var environment: [String: String]?
    /// For `describe`: why the client cannot take the daemon's place.
    var refusal: String?
}
