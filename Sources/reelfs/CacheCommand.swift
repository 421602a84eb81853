import ArgumentParser
import Glibc
import ReelVolume

struct CacheCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache", abstract: "List, verify and prune cached data, with or without running mounts.",
        subcommands: [CacheListCommand.self, CacheVerifyCommand.self, CachePruneCommand.self])
}

struct CacheListCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List cached files: size, last use, pins.")

    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(help: "Print JSON: an array with one object per source.") var json = false

    func perform() throws -> Int32 {
        let all = try CacheKeeper.directories(options.cacheDirectory()).map { CacheKeeper($0).list() }
        if json {
            say(String(decoding: encodeLine(all).dropLast(), as: UTF8.self))
        } else {
            let texts = all.filter { $0.error == nil }.map { cacheText($0) }
            say(texts.isEmpty ? "Nothing is cached." : texts.joined(separator: "\n\n"))
        }
        let errors = all.compactMap(\.error)
        for error in errors where !json { writeLine("reelfs: \(printable(error))") }
        return errors.isEmpty ? 0 : Failure.Status.mount.rawValue
    }
}

struct CachePruneCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Remove cached data, least recently used first, except of pinned or open files.",
        discussion: "Without --to, everything that is neither pinned nor open is removed.")

    @Option(
        help: ArgumentHelp("Size to prune to, over all sources: K, M, G, T.", valueName: "size")
    )
    var to: String?
    @OptionGroup var options: OptionArguments<CacheScope>
    @Flag(name: .shortAndLong, help: "Do not show progress.") var quiet = false
    @Flag(help: "Print the result as JSON.") var json = false

    func perform() throws -> Int32 {
        let limit = try to.map { try size("--to", $0, minimum: 0) } ?? 0
        let directories = try CacheKeeper.directories(options.cacheDirectory())
        let parts = directories.map { CacheKeeper($0).list() }
        var report = MaintenanceReport()
        var errors = parts.compactMap(\.error)
        for (index, goal) in prunePlan(parts, to: limit).enumerated() {
            guard parts[index].error == nil, let goal else { continue }
            let bar = ProgressBar("pruning", isQuiet: quiet || json)
            defer { bar.end() }
            do throws(Failure) {
                report.add(try CacheKeeper(directories[index]).prune(to: goal) { bar.show($0) })
            } catch {
                errors.append(error.sentence)
            }
        }
        if json {
            say(String(decoding: encodeLine(report).dropLast(), as: UTF8.self))
        } else if !quiet {
            say("\(humanSize(report.bytes)) freed.")
        }
        for error in errors { writeLine("reelfs: \(printable(error))") }
        return errors.isEmpty ? 0 : Failure.Status.mount.rawValue
    }
}

/// What each source may keep, so that together they take at most `limit`: as if all were one cache, what was used longest
/// ago goes first, wherever it is.
/// - Returns: bytes by source; nil where nothing has to go.
func prunePlan(_ parts: [CacheStatus], to limit: Int64) -> [Int64?] {
    if limit == 0 { return parts.map { _ in 0 } }
    var surplus = parts.reduce(0) { $0 + $1.used } - limit
    var goals = [Int64?](repeating: nil, count: parts.count)
    let candidates = parts.enumerated().flatMap { index, part in
        part.files.filter { !$0.isPinned && $0.openHandles == 0 }.map { (part: index, file: $0) }
    }
    for (index, file) in candidates.sorted(by: { $0.file.lastUse ?? 0 < $1.file.lastUse ?? 0 }) where surplus > 0 {
        let share = min(surplus, file.cachedBytes)
        goals[index] = (goals[index] ?? parts[index].used) - share
        surplus -= share
    }
    return goals
}
