import Glibc
import ReelFuse

/// What a command line says of a mount, or what another process knows of one: the options are not looked at yet. JSON
/// on the pipe to a daemon, which then has no command line to parse.
struct MountWords: Codable {
    var source: String
    /// The directory or, of a mount that the caller has made, `/dev/fd/N`.
    var mountpoint: String
    /// The options, that of `-o` before long ones.
    var given: [GivenOption]
    /// mount(8)'s `-s`: unknown options are ignored.
    var isSloppy = false
    /// mount(8), mount.fuse3 or automount is the caller.
    var isInFstab = false
    /// The socket of a daemon that serves the mount, and is to leave it to the one that reads this.
    var predecessor: String?

    /// The options, and those of the file that `config` names.
    func options() throws(Failure) -> MountOptions {
        try MountOptions(given, isSloppy: isSloppy, isInFstab: isInFstab)
    }

    /// The mount that is asked for.
    /// - Parameters:
    ///   - path: the directory, as an absolute path; without meaning for a mount that the caller has made.
    ///   - descriptor: the one to which that of `/dev/fd/N` was handed down, nil if it is N.
    func request(
        at path: String, _ options: MountOptions, handedDownTo descriptor: Int32? = nil
    ) throws(Failure) -> MountRequest {
        let all = try options.inFile() + given
        // Without those that `-s` ignores.
        let known = all.filter { OptionTable[hyphenated($0.name)] != nil }
        var request = MountRequest(source: source, mountpoint: path, options: options, given: known.map(\.absolute))
        request.predecessor = predecessor
        guard let number = MountDevice.descriptor(in: mountpoint) else { return request }
        guard let device = MountDevice(given: descriptor ?? number) else {
            throw .mount("\(shown(mountpoint)) is not an open /dev/fuse")
        }
        _ = fcntl(device.descriptor, F_SETFD, FD_CLOEXEC)
        request.device = device
        // Where it is mounted, unless that is in another mount namespace.
        if let place = Mount.all().last(where: { $0.device == device.number }) { request.mountpoint = place.mountpoint }
        return request
    }
}

/// A mount to be made.
struct MountRequest {
    var source: String
    /// Absolute.
    var mountpoint: String
    var options: MountOptions
    /// A mount that the caller has made (`/dev/fd/N`), nil if it is to be made.
    var device: MountDevice?
    /// The socket of a daemon that serves the mount, and is to leave it to this one.
    var predecessor: String?
    /// The options as given, those of a file first, with absolute paths.
    var given: [GivenOption] = []

    /// The time limit of a mount: one or two requests for the kind of the source, then the opening of the cache.
    var patience: Duration { .seconds(30 + 2 * options.timeout) }
}
