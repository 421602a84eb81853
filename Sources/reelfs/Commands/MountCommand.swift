import ArgumentParser
import CLinux
import Glibc
import ReelFuse

struct MountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mount a URL, a directory listing, a bucket or a playlist.")

    @Argument(
        help: "URL, s3://BUCKET, or path of a playlist or catalogue.",
        completion: .file())
    var source: String
    @Argument(help: "Existing directory to mount on, or /dev/fd/N.", completion: .directory)
    var mountpoint: String
    @Option(
        name: .short,
        help: ArgumentHelp(
            "All options as in fstab, separated by commas.", valueName: "options"))
    var o: [String] = []
    @OptionGroup var options: OptionArguments<MountScope>
    @Flag(
        name: [.long, .customLong("read-only"), .customShort("r")],
        help: ArgumentHelp("Mount read-only (always the case).", visibility: .hidden))
    var ro = false
    // mount(8) passes these to its helpers: sloppy, fake, no mtab, verbose, namespace, type. All but -v are for them
    // alone: programs of libfuse have other meanings for these letters.
    @Flag(name: .short, help: .hidden) var sloppy = false
    @Flag(name: .short, help: .hidden) var fake = false
    @Flag(name: .customShort("n"), help: .hidden) var noMtab = false
    @Flag(name: .shortAndLong, help: "Print the source, the mount point and the options.") var verbose = false
    @Option(name: .customShort("N"), help: .hidden) var namespace: String?
    @Option(name: .customShort("t"), help: .hidden) var type: String?
    @Flag(name: .customLong(Self.helperFlag), help: .hidden) var isHelper = false

    /// Put before the words if mount(8), mount.fuse3 or automount is the caller.
    static let helperFlag = "as-mount-helper"

    func perform() throws -> Int32 {
        guard isHelper || !(sloppy || fake || noMtab || namespace != nil || type != nil) else {
            throw Failure.usage(
                "mount(8)'s -f, -s, -n, -N and -t are for mount.reelfs alone; to stay in the foreground, "
                    + "write --foreground")
        }
        // First, as files that options name are looked up there, too.
        if let namespace { try enterMountNamespace(namespace) }
        try requireReadable(source)
        let words = words
        let options = try words.options()
        if fake {
            tell(mountpoint)
            return 0
        }
        if MountDevice.descriptor(in: mountpoint) != nil { return try serve(words, at: mountpoint, options) }
        let path: String
        switch try Mountpoint.prepare(mountpoint, for: source, isRemount: options.isRemount) {
        case .free(let free): path = free
        case .mounted(let mount):
            remark(aboutRemountOf: mount, options)
            return 0
        }
        try UserMount.check(options)
        return try serve(words, at: path, options)
    }

    private func serve(_ words: MountWords, at path: String, _ options: MountOptions) throws(Failure) -> Int32 {
        let request = try words.request(at: path, options)
        if request.options.foreground { return Daemon.run(request, ready: nil) }
        try DaemonLaunch.start(request, words)
        if isHelper, redacted(source) != source {
            writeLine(
                "reelfs: warning: mountinfo does not show the source's user and password, so mount(8) does not "
                    + "recognise its line of fstab; put both into a file: credentials=FILE",
                .warning)
        }
        tell(request.mountpoint)
        return 0
    }

    var words: MountWords {
        MountWords(source: source, mountpoint: mountpoint, given: given, isSloppy: sloppy, isInFstab: isHelper)
    }

    var given: [GivenOption] { o.flatMap { givenOptions($0) } + options.given }

    /// Prints one line without secrets for mount(8)'s `-v`.
    private func tell(_ path: String) {
        guard verbose else { return }
        let options = given.map { $0.visible }.joined(separator: ", ")
        say("reelfs: \(shownSource) mounted on \(shown(path))" + (options.isEmpty ? "" : " (\(options))"))
    }

    private var shownSource: String { printable(withoutQuery(source)) }

    /// Names the options that a remount cannot change, except for those that mount(8) only repeats from mountinfo.
    private func remark(aboutRemountOf mount: Mount, _ options: MountOptions) {
        let isAsShared = options.sharesWithOthers == mount.options.contains("allow_other")
        let same = isAsShared ? ["remount", "allow-other", "no-allow-other"] : ["remount"]
        let names = given.map { hyphenated($0.name) }.filter { MountOptions.isKnown($0) && !same.contains($0) }
        guard !names.isEmpty else { return }
        writeLine(
            "reelfs: note: \(shown(mountpoint)) stays mounted as it is: \(names.joined(separator: ", ")) cannot change "
                + "before it is unmounted and mounted again", .notice)
    }
}

/// Enters the namespace of mount(8)'s `-N`: a process's number, or a path. Before any thread exists, as setns(2)
/// demands.
private func enterMountNamespace(_ name: String) throws(Failure) {
    let path = name.utf8.allSatisfy { (0x30...0x39).contains($0) } ? "/proc/\(name)/ns/mnt" : name
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .usage("namespace \(shown(name)): \(reason())") }
    defer { close(descriptor) }
    // CLONE_NEWNS, which Glibc's module hides behind _GNU_SOURCE.
    guard setns(descriptor, 0x0002_0000) == 0 else {
        throw Failure(status: .system, sentence: "namespace \(shown(name)) cannot be entered: \(reason())")
    }
}
