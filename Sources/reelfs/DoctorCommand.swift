import ArgumentParser
import Glibc
import ReelCache
import ReelCore
import ReelFuse
import ReelHTTP

struct DoctorCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Says whether mounting works here, and what a server is good for.",
        // What the parser would write is longer than a line.
        usage: "reelfs doctor [<options>] [<url|mountpoint>]",
        discussion: """
            Beside the listings it reads at most 24 MiB of a URL, within about five seconds if the server answers at \
            once. Exit status 0 when everything needed works, 1 otherwise.
            """)

    @Argument(
        help: ArgumentHelp(
            "A URL, or where one is mounted (default: only this machine is looked at).", valueName: "url|mountpoint"),
        completion: .mountpoints)
    var place: String?
    @Option(help: ArgumentHelp("How long the film lasts, as 2h10m: will it play?", valueName: "time"))
    var duration: String?
    @Option(
        name: .short,
        help: ArgumentHelp(
            "Options as for `reelfs mount`: those that matter here are heeded.", valueName: "options"))
    var o: [String] = []
    @Option(help: .cacheDirectory, completion: .directory) var cacheDir: String?
    @Option(help: ArgumentHelp("A file with options, as for `reelfs mount`.", valueName: "file"), completion: .file())
    var config: String?
    @Option(
        help: ArgumentHelp(
            "A file with user and password, token or headers, as for `reelfs mount`.", valueName: "file"),
        completion: .file())
    var credentials: String?
    @Option(help: ArgumentHelp("\"Name: value\" for each request, or @FILE, as for `reelfs mount`.", valueName: "line"))
    var header: [String] = []
    @Option(help: ArgumentHelp("Until an answer is no longer waited for (default: 30).", valueName: "seconds"))
    var timeout: String?
    @Flag(help: "As JSON.") var json = false

    func perform() throws -> Int32 {
        let options = try mountOptions()
        let seconds = try duration.map { try playingTime("--duration", $0) }
        var diagnosis = Diagnosis()
        if let place, ResourceURL(place) == nil {
            // Neither is repeated where it looks like a URL.
            try requireReadable(place)
            try examine(mount: place, options, seconds, &diagnosis)
        } else {
            diagnosis.add(SystemFacts.gather(options))
            let source = place.flatMap { ResourceURL($0)?.text }
            let cache = CacheFacts.gather(try SourceDirectory.root(options), source: source)
            diagnosis.add(cache, CacheLimits(options))
            if let place { try examine(place, options, seconds, isOfMount: false, &diagnosis) }
        }
        print(json ? String(decoding: encodeLine(diagnosis).dropLast(), as: UTF8.self) : diagnosis.text)
        // As grep(1) has it: the command did its work, the answer is no.
        return diagnosis.isWell ? 0 : 1
    }

    private func mountOptions() throws(Failure) -> MountOptions {
        let values = [
            ("cache-dir", cacheDir), ("config", config), ("credentials", credentials), ("timeout", timeout),
        ]
        return try MountOptions(
            o.flatMap { givenOptions($0) } + values.compactMap { name, value in value.map { GivenOption(name, $0) } }
                + header.map { GivenOption("header", $0) })
    }

    private func examine(
        mount place: String, _ options: MountOptions, _ seconds: Int64?, _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        let path = try Mountpoint.resolve(place)
        guard let mount = Mount.on(path), mount.isOurs else {
            throw .mount("\(shown(place)) is neither a URL nor a reelfs mount")
        }
        var facts = MountFacts(mountpoint: path, daemon: Mountpoint.daemon(of: path))
        facts.isOwn = mount.options.contains("user_id=\(geteuid())")
        if facts.daemon == .alive { facts.status = StatusCommand.status(of: mount) }
        diagnosis.add(facts)
        guard facts.daemon == .alive else { return }
        guard let url = ResourceURL(mount.source) else {
            return diagnosis.note(
                "its source is a list on this machine", "`reelfs doctor URL` looks at one of its URLs.")
        }
        // mountinfo shows *** in the place of user and password; wrong ones are not sent.
        try examine(url.text, options, seconds, isOfMount: true, &diagnosis)
    }

    private func examine(
        _ source: String, _ options: MountOptions, _ seconds: Int64?, isOfMount: Bool, _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        guard let given = ResourceURL(source) else { return }
        let secrets = try FilesystemConfiguration.credentials(options.credentialsFile, for: given)
        let url = secrets.flatMap { ResourceURL($0.source(given)) } ?? given
        let configuration = try TransportConfiguration(url, options, secrets)
        let origin: CurlOrigin
        do throws(TransportError) {
            origin = try CurlOrigin(configuration)
        } catch {
            throw .mount("the transport cannot start: \(error)")
        }
        defer { origin.shutdown() }
        let examination = OriginExamination(origin, limit: .seconds(options.timeout))
        let hasSecrets = url.credentials != nil || !options.headers.isEmpty || secrets != nil
        var facts: OriginFacts
        switch examination.source(url) {
        case .failed(let probe): facts = OriginFacts(url: url, first: probe)
        case .found(let found, let file, let first):
            diagnosis.add(found)
            if hasSecrets { diagnosis.addSecrets(sentTo: url) }
            guard let file else { return }
            facts = examination.file(file, first: first)
        }
        facts.duration = seconds
        facts.sendsCredentials = hasSecrets && facts.url.isSameOrigin(as: url)
        facts.isOfMount = isOfMount
        diagnosis.add(facts)
    }
}

/// `2h10m`, `45m`, `90`: one or more times, larger units first. In seconds.
func playingTime(_ name: String, _ value: String) throws(Failure) -> Int64 {
    var parts: [Substring] = []
    var rest = value[...]
    while let end = rest.firstIndex(where: { !$0.isNumber }) {
        parts.append(rest[...end])
        rest = rest[rest.index(after: end)...]
    }
    if !rest.isEmpty { parts.append(rest) }
    var sum: Int64 = 0
    for part in parts { sum += try duration(name, String(part)) }
    guard sum > 0, sum < 1000 * 3600 else { throw .usage("option \(name) must be a time such as 2h10m, 45m or 90") }
    return sum
}
