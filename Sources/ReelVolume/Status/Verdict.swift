import ReelCore
import ReelThreads

/// What a mount's state means for its reader: one sentence, which `status`, `top`, `doctor`, the page and the API show.
package struct Verdict: Codable, Hashable, Sendable {
    /// The worst first.
    package enum Word: String, CaseIterable, Codable, Sendable {
        /// A film waits for bytes.
        case stands
        /// A film plays, and will wait for bytes.
        case stops
        /// The origin, its certificate, key or login, or a command of the user's refuses.
        case refused
        /// The origin answers otherwise than a server of files does.
        case wrong
        case away
        /// Nothing is asked for, by command.
        case offline
        /// The disk of the cache takes nothing.
        case disk
        /// The origin keeps requests waiting.
        case slow
        /// Nobody waits, and nothing is known that would make anybody wait.
        case well

        fileprivate var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
    }

    package var word: Word
    /// Whose fault it is: `origin`, `login`, `command`, `line`, `queue` or `disk`; nil if nobody's.
    package var culprit: String?
    /// For a line of its own, without a capital and a full stop.
    package var sentence: String
    /// Seconds since 1970, nil if that is not known.
    package var since: Int64?
    /// The path of the film that it is about, below the mount point; nil where it is about none.
    package var path: String?
}

extension VolumeStatus {
    /// The worst of the sources of a catalogue, each with places of its own, and of what they share.
    /// - Parameter sources: the states of those that are open.
    func judged(of sources: [VolumeStatus]) -> Verdict {
        let closed = (self.closedSources ?? []).compactMap { source in
            source.trouble.map {
                Verdict(
                    word: source.word.flatMap { Verdict.Word(rawValue: $0) } ?? .away,
                    culprit: source.culprit ?? "origin", sentence: "\(source.path): \($0)", since: source.since)
            }
        }
        let all = sources.compactMap(\.verdict).filter { $0.word != .well } + closed
        if let worst = all.min(by: { $0.word.rank < $1.word.rank }) { return worst }
        var shared = self
        (shared.origins, shared.mirrors) = (nil, nil)
        return shared.judged
    }

    /// The worst that is known, what a person waits for before all else.
    package var judged: Verdict {
        if let film = standing { return film }
        if let film = stopping { return film }
        if let place = trouble { return place }
        if self.isOffline == true {
            return Verdict(word: .offline, sentence: "nothing is asked for, by command: what is cached whole plays")
        }
        if self.cacheFailure != nil {
            let memory = humanSize(self.bytesInMemory)
            return Verdict(
                word: .disk, culprit: "disk", sentence: "the disk of the cache takes nothing: \(memory) in memory")
        }
        if let late = self.origins?.first, let time = late.firstByte, time >= Self.slow {
            let seconds = "\(time / 1000).\(time / 100 % 10)"
            return Verdict(
                word: .slow, culprit: "origin", sentence: "\(late.origin) is slow: its answers begin after \(seconds) s"
            )
        }
        let players = self.files.count { $0.openHandles > 0 && $0.isPlayed == true }
        let sentence = players == 0 ? "well" : players == 1 ? "what plays plays on" : "all \(players) play on"
        return Verdict(word: .well, sentence: sentence)
    }

    /// Milliseconds to the head of an answer, from which on whoever opens a film notices.
    private static let slow: Int64 = 2000
    /// Seconds: what is further away changes before it comes.
    private static let foresight = 120.0

    private var standing: Verdict? {
        let waiting = self.files.filter { ($0.waiting ?? 0) >= 1000 && $0.needsMore }
        guard let film = waiting.max(by: { $0.waiting ?? 0 < $1.waiting ?? 0 }) else { return nil }
        var verdict = Verdict(
            word: .stands, culprit: film.recentFault ?? "origin",
            sentence: "\(film.name) stands for \((film.waiting ?? 0) / 1000) s", path: film.path)
        if let place = trouble {
            verdict.culprit = place.culprit
            verdict.sentence += ": \(place.sentence)"
        } else {
            if isLimited { verdict.culprit = "line" }
            if let needed = film.neededRate, needed > film.rate {
                verdict.sentence += ": \(Self.rates(film.rate, needed))"
            }
        }
        return verdict
    }

    private var stopping: Verdict? {
        let ends = self.files.compactMap { film in film.end.map { (film, $0) } }
        guard let (film, end) = ends.min(by: { $0.1 < $1.1 }), end < Self.foresight else { return nil }
        return Verdict(
            word: .stops, culprit: isLimited ? "line" : film.recentFault ?? "origin",
            sentence: "\(film.name) stops in \(Int(end)) s: \(Self.rates(film.rate, film.neededRate ?? 0))",
            path: film.path)
    }

    private static func rates(_ comes: Int64, _ needed: Int64) -> String {
        "\(humanSize(comes))/s come, \(humanSize(needed))/s are needed"
    }

    /// At this time of day.
    private var isLimited: Bool { self.limitRate.flatMap { RateSchedule($0) }?.rate(at: minuteOfDay()) != nil }

    /// An origin that does not give what it has, where no other place of the tree can stand in for it.
    private var trouble: Verdict? {
        let bad = (self.origins ?? []).filter { $0.trouble != nil || !["well", "doubtful"].contains($0.health) }
        let places = Set((self.mirrors ?? []).map(\.origin))
        let hasAnother = !places.isSubset(of: Set(bad.map(\.origin)))
        guard let place = bad.first(where: { !places.contains($0.origin) || !hasAnother }) else { return nil }
        guard let word = Verdict.Word(rawValue: place.health), let trouble = place.trouble else {
            let since = self.outages.first { $0.origin == place.origin }?.since
            let reason = place.trouble?.reason ?? "\(place.origin) is away (\(place.health))"
            return Verdict(word: .away, culprit: "origin", sentence: "\(reason): what is cached plays", since: since)
        }
        return Verdict(
            word: word, culprit: trouble.culprit, sentence: "\(place.origin): \(trouble.reason)", since: trouble.since)
    }
}

extension VolumeStatus.File {
    /// Whose fault a stall of the last minute was, nil if there was none.
    fileprivate var recentFault: String? { lastStall.flatMap { wallClock() - $0.when < 60 ? $0.fault : nil } }

    /// What waits for bytes misses some. A copy takes what comes, however long each of its reads waits.
    fileprivate var needsMore: Bool { isPlayed == true || rate < max(neededRate ?? 0, 1) }

    fileprivate var name: String { path.split(separator: "/").last.map { String($0) } ?? path }

    /// Seconds until its player has read all that is there, where less comes than it reads and the film does not end
    /// before; nil for any other file. A request has to be under way: where none is, enough is there.
    fileprivate var end: Double? {
        guard isPlayed == true, let needed = neededRate, needed > rate, let length,
            map?.contains(FileMap.Cell.coming.rawValue) == true,
            let reader = readers?.first(where: { $0.isPlayer }), reader.ahead >= 0
        else { return nil }
        let left = length &- reader.position &- reader.ahead
        guard left > 0 else { return nil }
        let end = Double(reader.ahead) / Double(needed &- rate)
        return end < Double(length &- reader.position) / Double(needed) ? end : nil
    }
}
