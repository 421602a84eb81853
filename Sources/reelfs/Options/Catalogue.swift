import Logging
import ReelCache
import ReelCore
import ReelHTTP
import ReelSources
import ReelVolume

/// A catalogue, `NAME.toml`: several sources as one tree. `[[source]]` tables with `path`, `source` and any option that
/// concerns one source; `[defaults]` holds options for all.
struct Catalogue {
    struct Source {
        var path: [String]
        /// A URL, or the absolute path of a list.
        var source: String
        /// The options of the mount, of `[defaults]` and of the source; the later ones take precedence.
        var options: MountOptions
        var line: Int
    }

    /// Each has some five threads.
    static let mostSources = 64
    private static let mostFolders = 16

    /// Absolute.
    let path: String
    private(set) var sources: [Source] = []

    /// Whether the SOURCE of a mount is a catalogue.
    static func isMeant(by source: String) -> Bool {
        asciiLowercased(source).hasSuffix(".toml") && SourceKinds.url(of: source) == nil
    }

    /// Reads the file. - Parameter options: of the mount.
    static func load(_ path: String, _ options: MountOptions) throws(Failure) -> Catalogue {
        guard options.headers.isEmpty, options.credentialsFile == nil else {
            throw .usage("header and credentials of a catalogue stand in its tables, as each source has its own")
        }
        let read = try TrustedText(path, kind: "catalogue", isSecret: false)
        let catalogue = try Catalogue(parsing: read.text, path: path, options)
        if !read.isPrivate, catalogue.holdsSecrets {
            throw .usage("catalogue \(shown(path)) holds a secret, and others can read it: run `chmod 600` on it")
        }
        return catalogue
    }

    /// - Parameter path: absolute; names the file in errors, and relative paths start from its folder.
    init(parsing text: String, path: String, _ options: MountOptions) throws(Failure) {
        self.path = path
        let tables: [TOMLReader.Table]
        do throws(TOMLReader.Mistake) { tables = try TOMLReader.read(text) } catch {
            throw mistake(error.line, error.text)
        }
        var options = options
        for table in tables where !table.isElement {
            guard table.name == "defaults" else { throw mistake(table.line, "unknown table [\(shown(table.name))]") }
            options = try apply(table, to: options)
        }
        for table in tables where table.isElement {
            guard table.name == "source" else { throw mistake(table.line, "unknown table [[\(shown(table.name))]]") }
            let source = try source(table, options)
            try check(source)
            sources.append(source)
        }
        guard !sources.isEmpty else { throw .usage("catalogue \(shown(path)) has no [[source]] table") }
    }

    private var holdsSecrets: Bool {
        sources.contains { source in
            redacted(source.source) != source.source
                || source.options.headers.contains { if case .field = $0 { true } else { false } }
        }
    }

    // MARK: Tables

    private func source(_ table: TOMLReader.Table, _ options: MountOptions) throws(Failure) -> Source {
        var texts: [String: String] = [:]
        for key in ["path", "source"] {
            guard let entry = table[key] else { throw mistake(table.line, "[[source]] has no `\(key)`") }
            guard case .text(let text) = entry.value, !text.isEmpty else {
                throw mistake(entry.line, "`\(key)` must be \"text\"")
            }
            texts[key] = text
        }
        let line = table["source"]?.line ?? table.line
        let given = texts["source"] ?? ""
        if Self.isMeant(by: given) { throw mistake(line, "`source`: a catalogue cannot name another") }
        var own = try apply(table, to: options)
        // Only by itself does a source ask for a list of lists to be listed.
        if own.warm == .all, table["warm"] == nil { own.warm = .cheap }
        let isURL = SourceKinds.url(of: own.address(of: given)) != nil
        do throws(Failure) { try requireReadable(given) } catch { throw mistake(line, "`source`: \(error.sentence)") }
        return Source(
            path: try folders(texts["path"] ?? "", table["path"]?.line ?? table.line),
            source: isURL ? given : absolute(given), options: own, line: table.line)
    }

    private func folders(_ path: String, _ line: Int) throws(Failure) -> [String] {
        let names = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        let areNames = names.allSatisfy { name in
            (1...SafeName.longest).contains(name.utf8.count) && name != "." && name != ".."
                && name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
        }
        guard areNames, names.count <= Self.mostFolders else {
            throw mistake(
                line, "`path` \"\(shown(path))\" must be the name of a folder, or several with / between them")
        }
        return names
    }

    /// A folder belongs to one source, all of it: what is below is the source's own.
    private func check(_ source: Source) throws(Failure) {
        guard sources.count < Self.mostSources else {
            throw mistake(source.line, "a catalogue has at most \(Self.mostSources) sources")
        }
        for other in sources {
            let isSame = zip(other.path, source.path).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
            guard isSame else { continue }
            let (name, taken) = (source.path.joined(separator: "/"), other.path.joined(separator: "/"))
            throw mistake(
                source.line,
                name == taken
                    ? "`path` \"\(shown(name))\" is that of the source of line \(other.line), too"
                    : "`path` \"\(shown(name))\" and \"\(shown(taken))\" of line \(other.line) lie in each other")
        }
    }

    /// Options with those of a table, which replace earlier ones.
    private func apply(_ table: TOMLReader.Table, to options: MountOptions) throws(Failure) -> MountOptions {
        var options = options
        for entry in table.entries where !(table.isElement && ["path", "source"].contains(entry.key)) {
            let name = hyphenated(entry.key)
            let row = OptionTable[name]
            if let row, !row.scope.contains(.source) {
                throw mistake(entry.line, "option \(name) concerns the whole mount: give it to `reelfs mount`")
            }
            if name == "header" { options.headers = [] }
            if name == "mirror" { options.mirrors = [] }
            for value in try values(entry) {
                try options.apply(GivenOption(name, value, place: place(entry.line)).absolute(in: folder))
            }
        }
        return options
    }

    private func values(_ entry: TOMLReader.Entry) throws(Failure) -> [String?] {
        switch entry.value {
        case .text(let text): return [text]
        case .number(let text): return [text]
        case .flag(true): return [nil]
        case .flag(false): throw mistake(entry.line, "leave \"\(shown(entry.key))\" out where it is not wanted")
        case .list(let texts):
            guard OptionTable[hyphenated(entry.key)]?.repeats ?? true else {
                throw mistake(entry.line, "\"\(shown(entry.key))\" has one value, and no list")
            }
            return texts
        }
    }

    // MARK: Paths and places

    private var folder: String { cutAtLastSlash(path)?.above ?? "" }

    private func absolute(_ other: String) -> String {
        other.utf8.first == UInt8(ascii: "/") ? other : folder + "/" + other
    }

    private func place(_ line: Int) -> String { "\(shown(path)), line \(line)" }

    private func mistake(_ line: Int, _ text: String) -> Failure { .usage("\(place(line)): \(text)") }
}

extension Catalogue {
    /// The sources as the volume opens them. Reads the files that options name.
    /// - Parameters:
    ///   - logger: gets the reason why a token command failed.
    ///   - news: is notified of what becomes of the trees.
    ///   - tier: of all sources.
    func entries(
        _ logger: Logger? = nil, _ news: NewsDesk? = nil, _ tier: TierPlace? = nil
    ) throws(Failure) -> [CatalogueEntry] {
        var entries: [CatalogueEntry] = []
        for source in sources {
            do throws(Failure) {
                entries.append(try entry(source, logger, news, tier))
            } catch {
                throw .usage("\(place(source.line)): \(error.sentence)")
            }
        }
        return entries
    }

    private func entry(
        _ source: Source, _ logger: Logger?, _ news: NewsDesk?, _ tier: TierPlace?
    ) throws(Failure) -> CatalogueEntry {
        let configuration = try SourceConfiguration(source.source, source.options)
        let (transport, options) = (configuration.transport, source.options)
        do throws(TransportError) { try transport.check() } catch { throw .usage("\(error)") }
        let trouble = LoginTrouble(logger)
        return CatalogueEntry(
            path: source.path, address: configuration.sourceWithCredentials, scope: scope(of: source),
            fingerprint: "\(configuration.sourceWithCredentials) \(transport.fingerprint) \(source.options)",
            options: VolumeOptions(options, news, folder: source.path, tier: tier, trouble)
        ) { (line) throws(CatalogueFailure) in
            do throws(TransportError) {
                let commands = CommandRuns()
                var running = transport.running(options, with: commands) { trouble.note($0) }
                running.line = line
                let origin = try CurlOrigin(running)
                return CatalogueConnection(origin, finder: options.resolver.map { ResolverCommand($0) }) {
                    origin.shutdown()
                    commands.stop()
                }
            } catch {
                throw CatalogueFailure("the transport cannot start: \(error)")
            }
        }
    }

    /// A source keeps what is cached of it when its folder gets another name. If several have one address, as with two
    /// logins, the folder distinguishes them.
    private func scope(of source: Source) -> String {
        let address = { (source: Source) in
            SourceDirectory.name(of: source.options.address(of: source.source), source.options)
        }
        let own = address(source)
        let isOnly = sources.count { address($0) == own } == 1
        return sourceDirectoryName(isOnly ? own : own + "\n" + source.path.joined(separator: "/"))
    }
}
