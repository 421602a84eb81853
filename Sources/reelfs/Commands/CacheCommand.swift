import ArgumentParser
import CLinux
import ReelCache
import ReelCore
import ReelVolume

struct CacheCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache", abstract: "List, verify and prune cached data, mounted or not.",
        subcommands: [
            CacheListCommand.self, CacheVerifyCommand.self, CachePruneCommand.self,
            CacheRekeyCommand.self,
        ])
}

struct CacheListCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List cached files: size, last use, pins.")

    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(help: "Print JSON: an array with one object per source.") var json = false

    func perform() throws -> Int32 {
        let cipher = try options.cipher()
        let all = try CacheKeeper.directories(options.cacheDirectory()).map { CacheKeeper($0, cipher).list() }
        var work = MaintenanceTally()
        work.errors = all.compactMap(\.error)
        if json {
            sayJSON(all)
            return work.errors.isEmpty ? 0 : Failure.Status.mount.rawValue
        }
        let texts = all.filter { $0.error == nil }.map { cacheText($0) }
        // Beside an error nothing is known of what it hides.
        if !texts.isEmpty || work.errors.isEmpty {
            say(texts.isEmpty ? "Nothing is cached." : texts.joined(separator: "\n\n"))
        }
        return work.finish()
    }
}

struct CacheVerifyCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify the checksums of cached data.",
        // The parser's own is longer than a line.
        usage: "reelfs cache verify [<options>] [<path> ...]",
        discussion: """
            A damaged block is never served: the next read fetches it again. With --repair, mounted sources fetch \
            their damaged blocks at once, and only those; sources that are not mounted drop them until the next read.
            """)

    @Argument(
        help: ArgumentHelp(
            "Files or directories on mounts (default: the whole cache directory).", valueName: "path"),
        completion: .file())
    var paths: [String] = []
    @Flag(help: "Fetch damaged blocks again.") var repair = false
    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(name: .shortAndLong, help: "Show no progress, and print nothing unless there is damage.") var quiet = false
    @Flag(help: "Print the result as JSON.") var json = false

    func validate() throws {
        if !paths.isEmpty, !options.given.isEmpty {
            throw ValidationError(
                "--cache-dir and --encrypt cannot be combined with paths: the mount of a path knows its cache")
        }
    }

    func perform() throws -> Int32 {
        var work = MaintenanceTally()
        var isOffline = false
        let cipher = paths.isEmpty ? try options.cipher() : nil
        let bar = ProgressBar("verifying", isQuiet: quiet || json)
        for directory in paths.isEmpty ? try CacheKeeper.directories(options.cacheDirectory()) : [] {
            work.add { () throws(Failure) in
                defer { bar.end() }
                let keeper = CacheKeeper(directory, cipher)
                let part = try keeper.verify(repairs: repair, bar.show)
                if keeper.isOffline, part.damagedBlocks > 0 { isOffline = true }
                return part
            }
        }
        for path in paths {
            work.add(path, { .verify($0, repairs: repair) }, bar.show)
            bar.end()
        }
        let report = work.report
        if json {
            sayJSON(report)
        } else if !quiet || report.damagedBlocks > 0 {
            say(verifyText(report, repairs: repair, isOffline: isOffline))
        }
        return work.finish(isWell: report.damagedBlocks == 0 || repair && report.failure == nil)
    }
}

struct CachePruneCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Remove cached data, least recently used first, except of pinned or open files.",
        // The parser's own is longer than a line.
        usage: "reelfs cache prune [<options>]",
        discussion: "Without --to, removes everything that is neither pinned nor open.")

    @Option(
        help: ArgumentHelp("Total size to keep, over all sources: K, M, G, T.", valueName: "size")
    )
    var to: String?
    @Flag(help: "Remove all that is encrypted under a lost key, pinned files too, except of mounts.")
    var lostKey = false
    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(name: .shortAndLong, help: "Show no progress, and print no result.") var quiet = false
    @Flag(help: "Print the result as JSON.") var json = false

    func perform() throws -> Int32 {
        let limit = try to.map { try size("--to", $0, minimum: 0) } ?? 0
        let directories = try CacheKeeper.directories(options.cacheDirectory())
        if lostKey { return try removeLost(directories) }
        let cipher = try options.cipher()
        let parts = directories.map { CacheKeeper($0, cipher).list() }
        var work = MaintenanceTally()
        work.errors = parts.compactMap(\.error)
        let bar = ProgressBar("pruning", isQuiet: quiet || json)
        for (index, bytes) in prunePlan(parts, to: limit).enumerated() where bytes > 0 {
            if parts[index].error != nil { continue }
            work.add { () throws(Failure) in
                defer { bar.end() }
                return try CacheKeeper(directories[index], cipher).prune(freeing: bytes, bar.show)
            }
        }
        if json { sayJSON(work.report) } else if !quiet { sayFreed(work) }
        return work.finish()
    }
}

extension CachePruneCommand {
    func validate() throws {
        if lostKey, to != nil || options.given.contains(where: { hyphenated($0.name) == "encrypt" }) {
            throw ValidationError("--lost-key removes everything, and takes neither --to nor --encrypt")
        }
    }

    /// Beside nothing but errors it is no result.
    private func sayFreed(_ work: MaintenanceTally) {
        if work.report.bytes > 0 || work.errors.isEmpty { say("\(humanSize(work.report.bytes)) freed.") }
    }

    private func removeLost(_ directories: [String]) throws -> Int32 {
        var work = MaintenanceTally()
        for directory in directories {
            work.add { () throws(Failure) in
                var report = MaintenanceReport()
                do throws(CacheError) {
                    report.bytes = try CacheKeyFile.removeSource(directory)
                } catch {
                    // A plain one needs no key.
                    if error != .plain { throw .mount("\(printable(directory)): \(error)") }
                }
                return report
            }
        }
        CacheKeyFile.remove(try CacheKeeper.place(options.cacheDirectory()))
        if json { sayJSON(work.report) } else if !quiet { sayFreed(work) }
        return work.finish()
    }
}

struct CacheRekeyCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "rekey", abstract: "Change the key of an encrypted cache, mounted or not.",
        discussion: """
            Nothing is fetched or encrypted again: the key of --encrypt only seals the one that the data is encrypted \
            with. Who has the old key and a copy of the old file `key` can still read the data.
            """)

    @Option(help: ArgumentHelp("The new key: file:PATH, credential:NAME or command:COMMAND.", valueName: "key"))
    var to: String
    @OptionGroup var options: OptionArguments<CacheScope>

    func perform() throws -> Int32 {
        let old = try MountOptions(options.given)
        guard let encryption = old.encryption else { throw Failure.usage("name the present key with --encrypt") }
        _ = reel_forbid_dumps()
        let new = try KeySource(parsing: to).key(within: .seconds(30))
        let key = try encryption.key(within: .seconds(30))
        let root = try SourceDirectory.root(old)
        guard CacheKeyFile.isEncrypted(root) else {
            throw Failure.mount("the cache directory \(shown(root)) is not encrypted")
        }
        do throws(CacheError) {
            try CacheKeyFile.change(root, from: key, to: new)
        } catch {
            throw Failure.mount("\(error)")
        }
        say("The key has changed.")
        return 0
    }
}

/// Shares a limit out over the sources of a cache, as if all were one: the least recently used file goes first.
/// - Returns: bytes to free, by source: the index may grow by a few pages meanwhile, for which no film shall go.
func prunePlan(_ parts: [CacheStatus], to limit: Int64) -> [Int64] {
    if limit == 0 { return parts.map { _ in .max } }
    // Wrapping: numbers of other processes must not trap.
    var surplus = parts.reduce(0) { $0 &+ $1.used } &- limit
    var shares = [Int64](repeating: 0, count: parts.count)
    let candidates = parts.enumerated().flatMap { index, part in
        part.files.filter { !$0.isPinned && $0.openHandles == 0 }.map { (part: index, file: $0) }
    }
    for (index, file) in candidates.sorted(by: { $0.file.lastUse ?? 0 < $1.file.lastUse ?? 0 }) where surplus > 0 {
        let share = min(surplus, file.cachedBytes)
        shares[index] &+= share
        surplus &-= share
    }
    return shares
}
