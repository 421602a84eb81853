import ArgumentParser
import Glibc
import ReelCache
import ReelCore
import ReelFuse
import ReelHTTP
import ReelSources
import ReelThreads
import ReelVolume

struct DoctorCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check whether mounting works here, and what a server supports.",
        // The parser's own is longer than a line.
        usage: "reelfs doctor [<options>] [<url|catalogue|mountpoint>]",
        discussion: """
            Reads listings and at most 24 MiB of a file, within about five seconds if the server answers at once. \
            Exits with 0 if everything needed works, and with 1 otherwise.
            """)

    @Argument(
        help: ArgumentHelp(
            "URL, catalogue or mount point (default: this machine only).", valueName: "url|catalogue|mountpoint"),
        completion: .mountpoints)
    var place: String?
    @Option(
        help: ArgumentHelp("Playing time of the film, such as 2h10m, to check whether it will play.", valueName: "time")
    )
    var duration: String?
    @Option(
        name: .short,
        help: ArgumentHelp(
            "Options of `reelfs mount`; those without effect here are ignored.", valueName: "options"))
    var o: [String] = []
    @OptionGroup var options: OptionArguments<DoctorScope>
    @Flag(help: "Print the findings as JSON.") var json = false

    func perform() throws -> Int32 {
        let given = o.flatMap { givenOptions($0) } + options.given
        let options = try MountOptions(given)
        let seconds = try duration.map { try playingTime("--duration", $0) }
        var diagnosis = Diagnosis()
        let place = place.map { options.address(of: $0) }
        if let place, Catalogue.isMeant(by: place) {
            try examine(catalogue: absolute(place), options, &diagnosis)
        } else if let place, SourceKinds.url(of: place) == nil {
            // Refused without repeating it if it looks like a URL.
            try requireReadable(place)
            try examine(mount: place, given, seconds, &diagnosis)
        } else {
            diagnosis.add(SystemFacts.gather(options))
            if options.encryption != nil {
                diagnosis.note(
                    "no passthrough: the cache is encrypted, and the kernel cannot decrypt",
                    "Complete files are read through reelfs.")
            }
            let source = place.map { SourceDirectory.name(of: $0, options) }
            let cache = CacheFacts.gather(try SourceDirectory.root(options), source: source)
            diagnosis.add(cache, CacheLimits(options))
            if let place, let url = SourceKinds.url(of: place) {
                try examine(place, url, options, seconds, isOfMount: false, &diagnosis)
            }
        }
        if json { sayJSON(diagnosis) } else { say(diagnosis.text) }
        // As grep(1): the command did its work, and the answer is no.
        return diagnosis.isWell ? 0 : 1
    }

    /// - Parameter given: more options than the mount's own.
    private func examine(
        mount place: String, _ given: [GivenOption], _ seconds: Int64?, _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        let path = try Mountpoint.resolve(place)
        guard let mount = Mount.on(path), mount.isOurs else {
            throw .mount("\(shown(place)) is neither a URL nor a reelfs mount")
        }
        var facts = MountFacts(mountpoint: path, health: Mountpoint.health(of: path))
        facts.isOwn = mount.user == geteuid()
        if facts.health == .alive { facts.status = StatusCommand.status(of: mount) }
        diagnosis.add(facts)
        guard facts.health == .alive else { return }
        let own = Handover.own(of: mount)
        let options = try MountOptions((own?.options ?? []) + given)
        let source = options.address(of: own?.source ?? mount.source)
        if Catalogue.isMeant(by: source) { return try examine(sourcesOf: source, options, &diagnosis) }
        guard let url = SourceKinds.url(of: source) else {
            return diagnosis.note(
                "its source is a list on this machine", "Run `reelfs doctor URL` to check one of its URLs.")
        }
        // mountinfo shows *** for user and password.
        let shown = own == nil ? url.with(credentials: nil) : url
        try examine(source, shown, options, seconds, isOfMount: own == nil, &diagnosis)
    }

    private func examine(
        catalogue path: String, _ options: MountOptions, _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        diagnosis.add(SystemFacts.gather(options))
        diagnosis.add(
            CacheFacts.gather(try SourceDirectory.root(options), source: path), CacheLimits(options))
        try examine(sourcesOf: path, options, &diagnosis)
    }

    /// A line a source. A mistake in the file ends the command, as it ends a mount.
    private func examine(
        sourcesOf path: String, _ options: MountOptions, _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        let catalogue = try Catalogue.load(path, options)
        diagnosis.ok("\(shown(path)): \(count(catalogue.sources.count, "source"))")
        for (source, entry) in zip(catalogue.sources, try catalogue.entries()) {
            let name = shown(source.path.joined(separator: "/"))
            guard let url = SourceKinds.url(of: entry.address) else {
                let isThere = access(entry.address, R_OK) == 0
                if isThere { diagnosis.ok("\(name): a list on this machine") }
                if !isThere { diagnosis.bad("\(name): \(shown(entry.address)): \(reason())", nil) }
                continue
            }
            let configuration = try SourceConfiguration(source.source, source.options)
            let commands = CommandRuns()
            let transport = configuration.transport.running(source.options, with: commands) { _ in }
            let origin: CurlOrigin
            do throws(TransportError) { origin = try CurlOrigin(transport) } catch {
                throw .mount("the transport cannot start: \(error)")
            }
            defer {
                origin.shutdown()
                commands.stop()
            }
            var examination = OriginExamination(origin, limit: .seconds(source.options.timeout))
            switch examination.source(url, own: SourceKinds.own(entry.address)) {
            case .found(.tree(let kind, let entries, _, let remark), _, _):
                diagnosis.ok("\(name): \(kind), \(count(entries, "entry", plural: "entries"))")
                if let remark { diagnosis.note("\(name): \(remark)") }
            case .found(.file, _, _): diagnosis.ok("\(name): a file")
            case .found(.page(let reason), _, _): diagnosis.bad("\(name): \(reason)", nil)
            case .failed(let probe):
                let reason = if case .failure(let failure) = probe.outcome { failure.reason } else { "no answer" }
                diagnosis.bad("\(name): \(reason)", "Run `reelfs doctor URL` with the source's options to see more.")
            }
        }
    }

    private func examine(
        _ source: String, _ given: ResourceURL, _ options: MountOptions, _ seconds: Int64?, isOfMount: Bool,
        _ diagnosis: inout Diagnosis
    ) throws(Failure) {
        let secrets = try FilesystemConfiguration.credentials(options.credentialsFile, for: given)
        let hasKeys = SourceKinds.own(source)?.credentials == .keys
        // A source of its own kind takes its login from its address, as in a mount.
        let address = hasKeys ? source : secrets?.source(given, givenAs: source) ?? source
        let own = SourceKinds.own(address)
        let url = hasKeys || secrets == nil ? given : SourceKinds.url(of: address) ?? given
        let configuration = try TransportConfiguration(url, options, secrets, hasKeys: hasKeys)
        let commands = CommandRuns()
        let trouble = LoginTrouble(nil)
        let transport = configuration.running(options, with: commands) { trouble.note($0) }
        let origin: CurlOrigin
        do throws(TransportError) {
            origin = try CurlOrigin(transport)
        } catch {
            throw .mount("the transport cannot start: \(error)")
        }
        defer {
            origin.shutdown()
            commands.stop()
        }
        var examination = OriginExamination(origin, limit: .seconds(options.timeout))
        let request = OriginRequest(url: url)
        let login = LoginKind(own?.request(request) ?? request, options, secrets, transport)
        var facts: OriginFacts
        switch examination.source(url, own: own.map { $0.root.url == url ? $0 : type(of: $0).init(root: .url(url)) }) {
        case .failed(let probe): facts = OriginFacts(url: url, first: probe)
        case .found(let found, let file, let first):
            diagnosis.add(found)
            if login != .none { diagnosis.addSecrets(sentTo: url) }
            guard let file else { return }
            facts = examination.file(file, first: first)
        }
        facts.duration = seconds
        facts.login = facts.url.isSameOrigin(as: url) ? login : .none
        facts.loginFailure = trouble.sentence
        facts.isOfMount = isOfMount
        diagnosis.add(facts)
        for mirror in options.mirrors {
            guard let place = facts.url.movedUnsigned(from: url, to: mirror) else { continue }
            diagnosis.add(mirror: place, examination.inquire(place), of: facts)
        }
        if let via = options.via, case .success(let information) = facts.first.outcome {
            let cache = SharedCache(via, getsCredentials: options.viaCredentials).knowing(url)
            if let answers = examination.examine(cache, facts.url, of: url, information, options.alignment) {
                diagnosis.add(answers, of: information)
            }
        }
    }
}

extension Handover {
    /// The source and the options of a mount, with its logins; nil if its daemon is another user's, or does not tell.
    fileprivate static func own(of mount: Mount) -> (source: String, options: [GivenOption])? {
        guard let client = try? ControlClient(of: mount), client.owner == geteuid(),
            let own: Handover = try? client.result(of: .describe)
        else { return nil }
        return (own.source, own.words.given)
    }
}
