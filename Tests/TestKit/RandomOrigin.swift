import Glibc
import ReelCore
import Synchronization

/// A web server that errs and lies at random: its files become others, its listings say something else than its
/// answers, and its answers are late, cut, moved, decorated or about another matter.
///
/// One thing it never does, as no client could notice it: it never sends two versions of a file under the same length
/// and the same validator, nor bytes from another place than the head of the answer says.
package final class RandomOrigin: Sendable {
    /// What distinguishes the versions of a file; what else an answer says of them may be anything.
    package enum Identity: CaseIterable { case length, tag, date }

    /// What its address shows.
    package enum Form: Sendable {
        /// A folder, with another one in it.
        case tree
        /// A podcast, which has a new episode now and then.
        case feed
        /// A film of HLS, whose playlist is at the address itself.
        case film
        /// A film of HLS in two sizes.
        case films
    }

    package struct File: Sendable {
        /// In the mount, with the folder; another one now and then.
        package var name: String
        /// What every name of it ends with, behind the folder; of an episode what the feed calls it.
        package let title: String
        package let folder: String
        /// Where the origin has it: path without the first slash. Another one now and then.
        var place: String
        /// When an episode was published, in seconds since 1970, nil if the feed does not say.
        var published: Int64?
        /// nil if its bytes are in one resource.
        package var film: RandomFilm?
        package let identity: Identity
        /// Its answers have no length and no ranges: all of it in pieces, as a program makes it.
        package let isStream: Bool
        /// All that there ever were, the newest last.
        package var versions: [FileOrigin.Version] = []
        /// What the mirror has in place of some of them, under the same length and validator.
        package var copies: [FileOrigin.Version] = []
        /// The mirror has another file in place of the newest.
        package var isCopied = false
        /// Lengths that heads of answers have given, right or wrong.
        package var told: Set<Int64> = []
        /// The last requests for it and the heads of their answers, for whoever looks for the cause of a finding.
        package var asked: [String] = []

        /// No answer tells one version from another.
        package var isUnnamed: Bool { isStream && identity == .length }

        package var now: FileOrigin.Version { versions[versions.count - 1] }
        package var length: Int64 { film?.length ?? now.length }
        /// The path as in requests.
        package var path: String { "/" + escaped(place) }
    }

    struct State {
        var random: SeededGenerator
        var files: [File]
        /// How many of a hundred requests something happens to.
        var trouble = 0
        /// What may happen at present; other kinds each time, as one that is frequent hides another.
        var kinds: [Trouble] = []
        /// The mirror answers, too.
        var isMirrored = false
        /// Versions of segments so far.
        var segmentVersions: UInt64 = 0
    }

    /// What a path leads to.
    private enum Place {
        case file(Int)
        /// A segment of the film that is the file.
        case segment(Int, of: Int)
        /// A listing, a feed or a playlist.
        case document(String)
    }

    package static let folders = ["", "sub/"]
    private static let mostEpisodes = 8

    package let form: Form
    private let state: Mutex<State>
    /// Distinguishes its bytes from those of other origins.
    private let number: UInt64
    /// What may happen to a request at all.
    private let troubles: [Trouble]
    /// Where half of its redirects lead, nil for none.
    private let elsewhere: String?
    /// Behind the URLs in feeds and playlists.
    private let signature: String

    /// - Parameters:
    ///   - stream: the index of the file that is one, nil for none.
    ///   - elsewhere: another origin that has all of it, nil for none.
    ///   - signature: a query that the URLs in its feed or its playlists have.
    package init(
        seed: UInt64, number: UInt64 = 0, _ troubles: [Trouble] = Trouble.allCases, stream: Int? = nil,
        form: Form = .tree, elsewhere: String? = nil, signature: String = ""
    ) {
        (self.elsewhere, self.signature) = (elsewhere, signature)
        self.number = number << 48
        self.troubles = troubles
        self.form = form
        let files =
            switch form {
            case .tree: Self.tree(stream: stream)
            case .feed: [File]()
            case .film: [Self.film("origin.ts", at: "")]
            case .films: [Self.film("1280x720 2000k.ts", at: "0.m3u8"), Self.film("640x360 800k.ts", at: "1.m3u8")]
            }
        state = Mutex(State(random: SeededGenerator(seed: seed), files: files))
        for index in files.indices { replace(index) }
        if form == .feed { for _ in 0..<3 { addEpisode() } }
    }

    private static func tree(stream: Int?) -> [File] {
        let titles = ["film-0.mkv", "film-1.mp4", "a song, 100%.mp3", "Ünï ¿.mkv", "film-2.mkv", "small.jpg"]
        return titles.enumerated().map { index, title in
            let folder = folders[index / 4]
            let identity = Identity.allCases[index % Identity.allCases.count]
            return File(
                name: folder + title, title: title, folder: folder, place: folder + title, identity: identity,
                isStream: index == stream)
        }
    }

    private static func film(_ name: String, at place: String) -> File {
        File(
            name: name, title: name, folder: "", place: place, film: RandomFilm(), identity: .tag, isStream: false)
    }

    /// The folders of the tree.
    package var folders: [String] { form == .tree ? Self.folders : [""] }

    package var files: [File] { state.withLock { $0.files } }

    /// The versions of a file so far, at the origin and at its mirror. - Parameter file: its index.
    package func versions(of file: Int) -> [FileOrigin.Version] {
        state.withLock { $0.files[file].versions + $0.files[file].copies }
    }

    /// Whether the head of an answer ever gave a file that length.
    package func hasTold(_ length: Int64, of file: Int) -> Bool {
        state.withLock { state in
            state.files[file].told.contains(length) || state.files[file].versions.contains { $0.length == length }
        }
    }

    /// A server at that port; 0: any.
    package func server(port: UInt16) throws(ServerError) -> ScriptedServer {
        try ScriptedServer(port: port) { [self] in answer($0) }
    }

    /// A mirror, which has as much trouble, and other bytes of some files. While the origin is calm it is unwell, so
    /// that the origin is asked.
    package func mirror(port: UInt16) throws(ServerError) -> ScriptedServer {
        try ScriptedServer(port: port) { [self] in answerAsMirror($0) }
    }

    package func answerAsMirror(_ request: ServerRequest) -> [ServerStep] {
        state.withLock { $0.isMirrored } ? answer(request, asMirror: true) : ServerStep.answer(503)
    }

    /// Trouble of some kinds begins. - Returns: which, and how much of it.
    package func storm() -> String {
        state.withLock { state in
            state.isMirrored = true
            state.trouble = [10, 30, 60, 90].randomElement(using: &state.random)!
            let count = Int.random(in: 1...Trouble.allCases.count, using: &state.random)
            state.kinds = Trouble.allCases.shuffled(using: &state.random).prefix(count).filter(troubles.contains)
            let isAll = state.kinds.count == Trouble.allCases.count
            let names = isAll ? "all" : state.kinds.map { "\($0)" }.joined(separator: " ")
            return "\(state.trouble) % \(names)"
        }
    }

    /// From now on every answer is right.
    package func calm() { state.withLock { ($0.trouble, $0.isMirrored) = (0, false) } }

    /// Some file becomes another one, or the podcast has a new episode.
    package func replaceSome() {
        let (isNew, index) = state.withLock { [self] state in
            let isGrowing = form == .feed && state.files.count < Self.mostEpisodes
            return (isGrowing && Bool.random(using: &state.random), some(state.files, &state.random))
        }
        isNew ? addEpisode() : replace(index)
    }

    private func addEpisode() {
        let index = state.withLock { state in
            let index = state.files.count
            let words = ["Pilot", "Ünï & <Co>", "100 % sure?", "\"So\", said he", "News"]
            let title = "\(words[index % words.count]) \(index)"
            // A whole day, which each form of a feed can say.
            let published = index % 3 == 2 ? nil : (19_600 + Int64(index)) * 86_400
            let name = (published.map { isoDay($0) + " " } ?? "") + title + ".mp3"
            let place = "media/\(title).mp3"
            let identity = Identity.allCases[index % Identity.allCases.count]
            state.files.append(
                File(
                    name: name, title: title, folder: "", place: place, published: published, identity: identity,
                    isStream: false))
            return index
        }
        replace(index)
    }

    /// The index of a file; half of the time it is that of the stream, if there is one.
    package func some(_ random: inout SeededGenerator) -> Int { some(files, &random) }

    private func some(_ files: [File], _ random: inout SeededGenerator) -> Int {
        let index = files.indices.randomElement(using: &random)!
        guard let stream = files.firstIndex(where: \.isStream) else { return index }
        return Bool.random(using: &random) ? stream : index
    }

    private func replace(_ index: Int) {
        state.withLock { state in
            if state.files[index].film != nil { return replaceFilm(index, &state) }
            let count = state.files[index].versions.count
            let version = version(
                after: state.files[index], lengths, seed: number | UInt64(index) << 32 | UInt64(count + 1),
                &state.random)
            state.files[index].versions.append(version)
            state.files[index].isCopied = Bool.random(using: &state.random)
            if state.files[index].isCopied {
                var copy = version
                copy.bytes = GeneratedBytes(seed: 1 << 62 | number | UInt64(index) << 32 | UInt64(count + 1))
                state.files[index].copies.append(copy)
            }
            // Of a name that was never opened nothing is remembered.
            if Int.random(in: 0..<3, using: &state.random) == 0 {
                let (folder, title) = (state.files[index].folder, state.files[index].title)
                let place = "\(folder)\(count) \(title)"
                state.files[index].place = form == .tree ? place : "media/" + place + ".mp3"
                if form == .tree { state.files[index].name = place }
            }
        }
    }

    /// Another version of a resource, which its length or its validator tells from all before.
    private func version(
        after file: File, _ lengths: [Int64], seed: UInt64, _ random: inout SeededGenerator
    ) -> FileOrigin.Version {
        let count = file.versions.count
        // Multiples of 16 apart, so that a total that is a little wrong is no other version's.
        var length = lengths.randomElement(using: &random)! + 16 * Int64(count)
        if file.identity != .length, count > 0, Bool.random(using: &random) { length = file.now.length }
        if file.identity == .length {
            while file.versions.contains(where: { abs($0.length - length) < 16 }) { length += 16 }
        }
        return FileOrigin.Version(
            seed: seed, length: length, entityTag: file.identity == .date || file.isUnnamed ? nil : "\"\(count)\"",
            lastModified: file.isUnnamed ? nil : 1_700_000_000 + 60 * Int64(count), mediaType: "video/x-matroska")
    }

    /// The film has another playlist, or some of its segments become others under their names.
    private func replaceFilm(_ index: Int, _ state: inout State) {
        var film = state.files[index].film!
        if film.playlists.isEmpty || Bool.random(using: &state.random) {
            let number = film.playlists.count
            let segments = (0..<Int.random(in: 1...4, using: &state.random)).map { segment in
                let identity = Identity.allCases[(segment + number) % Identity.allCases.count]
                let place = "film-\(index)/\(number)-\(segment).ts"
                return File(name: place, title: place, folder: "", place: place, identity: identity, isStream: false)
            }
            state.segmentVersions += 1
            let isEnciphered = Bool.random(using: &state.random)
            let cipher = SegmentCipher(
                seed: self.number | 1 << 47 | state.segmentVersions, at: "film-\(index)/\(number).key",
                hasVector: Bool.random(using: &state.random))
            film.playlists.append(
                RandomFilm.Playlist(
                    segments: segments, cipher: isEnciphered ? cipher : nil,
                    enciphered: segments.map { _ in [] }, moments: []))
            for segment in segments.indices { replaceSegment(segment, &film, &state) }
        } else {
            let segments = film.playlists.last!.segments.indices
            let some = segments.filter { _ in Bool.random(using: &state.random) }
            for segment in some { replaceSegment(segment, &film, &state) }
        }
        let last = film.playlists.count - 1
        film.playlists[last].moments.append(film.playlists[last].segments.map { $0.versions.count - 1 })
        state.files[index].film = film
    }

    private func replaceSegment(_ segment: Int, _ film: inout RandomFilm, _ state: inout State) {
        let last = film.playlists.count - 1
        let file = film.playlists[last].segments[segment]
        state.segmentVersions += 1
        var version = version(
            after: file, segmentLengths, seed: number | 1 << 47 | state.segmentVersions, &state.random)
        if let cipher = film.playlists[last].cipher {
            version.length = (version.length + SegmentCipher.block - 1) / SegmentCipher.block * SegmentCipher.block
            while file.identity == .length, file.versions.contains(where: { $0.length == version.length }) {
                version.length += SegmentCipher.block
            }
            let padding = Int.random(in: 1...16, using: &state.random)
            film.playlists[last].enciphered[segment].append(cipher.made(version, padding: padding, of: segment))
        }
        film.playlists[last].segments[segment].versions.append(version)
    }

    /// The steps that answer a request.
    package func answer(_ request: ServerRequest) -> [ServerStep] { answer(request, asMirror: false) }

    private func answer(_ request: ServerRequest, asMirror: Bool) -> [ServerStep] {
        let path = request.path.hasPrefix("/moved/") ? String(request.path.dropFirst(6)) : request.path
        let (place, trouble, random) = state.withLock { state in
            let place = Self.place(of: path, state)
            // Documents are few.
            var share = state.trouble
            if case .document = place { share = min(60, state.trouble * 4) }
            let isHit = Int.random(in: 0..<100, using: &state.random) < share
            let random = SeededGenerator(seed: state.random.next())
            return (place, isHit ? state.kinds.randomElement(using: &state.random) : nil, random)
        }
        if trouble == .redirect, !asMirror, let elsewhere, random.seed % 2 == 0 {
            return ServerStep.answer(307, [("Location", elsewhere + "/moved" + path)])
        }
        switch place {
        case .document(let document): return answer(request, document, trouble, random)
        case .file(let file):
            var asked = files[file]
            if asMirror, asked.isCopied, let copy = asked.copies.last { asked.versions = [copy] }
            var answer = RandomAnswer(request, asked, random)
            let steps = trouble.map { answer.steps($0) } ?? answer.good()
            note(steps, to: request, of: file)
            return steps
        case .segment(let segment, let file):
            guard let playlist = files[file].film?.playlists.last else { return ServerStep.answer(404) }
            let asked = playlist.segments[segment]
            var answer = RandomAnswer(request, asked, random)
            // A length that is none moves all segments behind it: nobody could say which bytes are right there.
            let isLie = trouble.map { [.wrongTotal, .oddRange, .unsatisfiable].contains($0) } ?? false
            let steps = trouble.map { answer.steps(isLie ? .status : $0) } ?? answer.good()
            note(steps, to: request, of: file)
            return playlist.enciphered[segment].last?.steps(steps, of: asked.now.length) ?? steps
        }
    }

    private static func place(of path: String, _ state: State) -> Place {
        for (index, file) in state.files.enumerated() {
            if file.film == nil, file.path == path { return .file(index) }
            let segments = file.film?.playlists.last?.segments ?? []
            if let segment = segments.firstIndex(where: { $0.path == path }) { return .segment(segment, of: index) }
        }
        return .document(String(path.dropFirst()))
    }

    private func answer(
        _ request: ServerRequest, _ document: String, _ trouble: Trouble?, _ random: SeededGenerator
    ) -> [ServerStep] {
        var random = random
        let (files, signature) = (files, signature)
        let good: [ServerStep]
        let wrong: (inout SeededGenerator) -> [ServerStep]
        if let film = files.first(where: { $0.film != nil && $0.place == document })?.film {
            (good, wrong) = (film.text(signature), { film.wrongText(signature, &$0) })
        } else if let cipher = files.lazy.compactMap({ $0.film?.playlists.last?.cipher }).first(where: {
            $0.place == document
        }) {
            good = [
                .head(200, [("Content-Type", "application/octet-stream"), ("Content-Length", "16")]), .body(cipher.key),
            ]
            wrong = { _ in ServerStep.answer(200, body: "no key") }
        } else if form == .films, document.isEmpty {
            let lines = [
                "#EXTM3U", "#EXT-X-STREAM-INF:BANDWIDTH=2000000,RESOLUTION=1280x720", "0.m3u8",
                "#EXT-X-STREAM-INF:BANDWIDTH=800000,RESOLUTION=640x360", "1.m3u8",
            ]
            good = RandomFilm.answer(lines)
            wrong = { RandomFilm.answer(lines.prefix(Int.random(in: 1...3, using: &$0))) }
        } else if form == .feed, document.isEmpty {
            let feed = RandomFeed(episodes: files.reversed(), signature: signature)
            (good, wrong) = (feed.answer(), feed.wrongAnswer)
        } else if form == .tree, folders.contains(document) {
            let listing = RandomListing(folder: document, files: files.filter { $0.folder == document })
            (good, wrong) = (listing.answer(), listing.wrongAnswer)
        } else {
            return ServerStep.answer(404)
        }
        guard let trouble else { return good }
        // Half of what happens to a listing is a lie in it.
        if Bool.random(using: &random) { return wrong(&random) }
        var answer = RandomAnswer(request, document: good, random)
        return answer.steps(trouble)
    }

    /// Keeps the length that the head gives.
    private func note(_ steps: [ServerStep], to request: ServerRequest, of file: Int) {
        for case .head(let status, let headers) in steps {
            let telling = ["ETag", "Last-Modified", "Content-Range", "Content-Length", "Location"]
            let conditions = request.headers.filter { $0.name.hasPrefix("if-") || $0.name == "range" }
            let told = headers.filter { telling.contains($0.name) }.map { "\($0.name): \($0.value.prefix(80))" }
            let line = "\(request.target) \(conditions.map(\.value)) -> \(status) \(told)"
            state.withLock { $0.files[file].asked = $0.files[file].asked.suffix(29) + [line] }
            for (name, value) in headers {
                let total = asciiLowercased(name) == "content-range" ? value.split(separator: "/").last : nil
                let length = asciiLowercased(name) == "content-length" && status == 200 ? value[...] : nil
                if let told = (total ?? length).flatMap({ Int64($0) }) {
                    state.withLock { _ = $0.files[file].told.insert(told) }
                }
            }
        }
    }
}

/// Around what has a limit inside: a page, a block of 128 KiB, the first request, an extent of 8 MiB.
private let lengths: [Int64] = [
    16, 4096, 40_000, 128 << 10, 128 << 10 + 1, 300_000, 1 << 20, 1 << 20 - 1, 3_000_000, 6 << 20, 8 << 20 + 17,
]

/// The same of segments, small enough that a film of some is no longer than another.
private let segmentLengths: [Int64] = [16, 40_000, 128 << 10, 128 << 10 + 1, 300_000, 1 << 20, 1_500_000]

package func escaped(_ name: String) -> String {
    name.utf8.map { byte in
        let isPlain = byte > 0x20 && byte < 0x7F && !"%?#\"<>&".utf8.contains(byte)
        return isPlain
            ? String(UnicodeScalar(byte)) : "%" + String(Int(byte) + 0x100, radix: 16).dropFirst().uppercased()
    }.joined()
}
