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

    package struct File: Sendable {
        /// In the mount, with the folder; another one now and then.
        package var name: String
        /// What every name of it ends with, behind the folder.
        package let title: String
        package let folder: String
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
        /// The path as in requests.
        package var path: String { "/" + escaped(name) }
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
    }

    package static let folders = ["", "sub/"]
    private let state: Mutex<State>
    /// Distinguishes its bytes from those of other origins.
    private let number: UInt64
    /// What may happen to a request at all.
    private let troubles: [Trouble]

    /// - Parameter stream: the index of the file that is one, nil for none.
    package init(seed: UInt64, number: UInt64 = 0, _ troubles: [Trouble] = Trouble.allCases, stream: Int? = nil) {
        self.number = number << 48
        self.troubles = troubles
        let titles = ["film-0.mkv", "film-1.mp4", "a song, 100%.mp3", "Ünï ¿.mkv", "film-2.mkv", "small.jpg"]
        let files = titles.enumerated().map { index, title in
            let folder = Self.folders[index / 4]
            let identity = Identity.allCases[index % Identity.allCases.count]
            return File(
                name: folder + title, title: title, folder: folder, identity: identity, isStream: index == stream)
        }
        state = Mutex(State(random: SeededGenerator(seed: seed), files: files))
        for index in files.indices { replace(index) }
    }

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

    /// Some file becomes another one.
    package func replaceSome() {
        replace(state.withLock { [self] state in some(state.files, &state.random) })
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
            let count = state.files[index].versions.count
            let file = state.files[index]
            // Multiples of 16 apart, so that a total that is a little wrong is no other version's.
            var length = lengths.randomElement(using: &state.random)! + 16 * Int64(count)
            if file.identity != .length, count > 0, Bool.random(using: &state.random) { length = file.now.length }
            if file.identity == .length {
                while file.versions.contains(where: { abs($0.length - length) < 16 }) { length += 16 }
            }
            let version = FileOrigin.Version(
                seed: number | UInt64(index) << 32 | UInt64(count + 1), length: length,
                entityTag: file.identity == .date || file.isUnnamed ? nil : "\"\(count)\"",
                lastModified: file.isUnnamed ? nil : 1_700_000_000 + 60 * Int64(count),
                mediaType: "video/x-matroska")
            state.files[index].versions.append(version)
            state.files[index].isCopied = Bool.random(using: &state.random)
            if state.files[index].isCopied {
                var copy = version
                copy.bytes = GeneratedBytes(seed: 1 << 62 | number | UInt64(index) << 32 | UInt64(count + 1))
                state.files[index].copies.append(copy)
            }
            // Of a name that was never opened nothing is remembered.
            if Int.random(in: 0..<3, using: &state.random) == 0 {
                state.files[index].name = "\(file.folder)\(count) \(file.title)"
            }
        }
    }

    /// The steps that answer a request.
    package func answer(_ request: ServerRequest) -> [ServerStep] { answer(request, asMirror: false) }

    private func answer(_ request: ServerRequest, asMirror: Bool) -> [ServerStep] {
        let place = request.path.hasPrefix("/moved/") ? String(request.path.dropFirst(6)) : request.path
        let (file, trouble, random) = state.withLock { state in
            let index = state.files.firstIndex { $0.path == place }
            // Listings are few.
            let share = index == nil ? min(60, state.trouble * 4) : state.trouble
            let isHit = Int.random(in: 0..<100, using: &state.random) < share
            let random = SeededGenerator(seed: state.random.next())
            return (index, isHit ? state.kinds.randomElement(using: &state.random) : nil, random)
        }
        guard let file else { return answer(request, folder: String(place.dropFirst()), trouble, random) }
        var asked = files[file]
        if asMirror, asked.isCopied, let copy = asked.copies.last { asked.versions = [copy] }
        var answer = RandomAnswer(request, asked, random)
        let steps = trouble.map { answer.steps($0) } ?? answer.good()
        note(steps, to: request, of: file)
        return steps
    }

    private func answer(
        _ request: ServerRequest, folder: String, _ trouble: Trouble?, _ random: SeededGenerator
    ) -> [ServerStep] {
        guard Self.folders.contains(folder) else { return ServerStep.answer(404) }
        var random = random
        let listed = files.filter { $0.folder == folder }
        var listing = RandomListing(folder: folder, files: listed)
        guard let trouble else { return listing.answer() }
        // Half of what happens to a listing is a lie in it.
        if Bool.random(using: &random) { return listing.wrongAnswer(&random) }
        var answer = RandomAnswer(request, listing, random)
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

package func escaped(_ name: String) -> String {
    name.utf8.map { byte in
        let isPlain = byte > 0x20 && byte < 0x7F && !"%?#\"<>&".utf8.contains(byte)
        return isPlain
            ? String(UnicodeScalar(byte)) : "%" + String(Int(byte) + 0x100, radix: 16).dropFirst().uppercased()
    }.joined()
}
