import FoundationEssentials
import ReelCore
import ReelSources
import ReelThreads
import ReelVolume

/// The user's resolver as a command: one JSON object on its stdin, one on its stdout.
final class ResolverCommand: PlaceFinder {
    /// On its stdin.
    private struct Question: Encodable {
        var url: String
        /// The last part of the URL's path, decoded.
        var name: String
        var reason: String
        var status: Int?
    }

    /// On its stdout.
    private struct Answer: Decodable {
        var url: String
        var headers: [String: String]?
        var expires: Expiry?
        var key: String?
    }

    /// Seconds from now, or a moment as RFC 3339 writes it.
    private enum Expiry: Decodable, Equatable {
        case seconds(Double)
        case moment(String)

        init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            if let seconds = try? value.decode(Double.self) {
                self = .seconds(seconds)
            } else {
                self = .moment(try value.decode(String.self))
            }
        }
    }

    /// Bytes of an answer: a URL, headers with a few tokens.
    private static let longestAnswer = 64 << 10
    /// Bytes of a key, which the index keeps.
    private static let longestKey = 1 << 10
    /// Longer than any mount.
    private static let longestLife = 10.0 * 365 * 86_400

    private let command: Command
    private let runs = CommandRuns()

    init(_ command: Command) { self.command = command }

    func find(_ question: PlaceQuestion, within limit: Duration) -> Result<PlaceAnswer, PlaceFailure> {
        let asked = Question(
            url: question.url.text, name: String(decoding: question.url.lastSegment, as: UTF8.self),
            reason: question.reason.rawValue, status: question.status)
        do throws(CommandFailure) {
            let output = try runs.run(
                command, input: encodeLine(asked), limit: Self.longestAnswer, within: limit)
            return Self.read(output)
        } catch {
            return .failure(PlaceFailure("\(shown(command.name)) \(reason(of: error))"))
        }
    }

    func stop() { runs.stop() }

    /// Reads the answer. - Parameter now: seconds since 1970.
    static func read(_ output: [UInt8], now: Int64 = wallClock()) -> Result<PlaceAnswer, PlaceFailure> {
        guard let answer = decodeLine(Answer.self, output) else {
            return .failure(PlaceFailure("its output is not one JSON object with a url"))
        }
        guard let url = ResourceURL(answer.url) else {
            return .failure(PlaceFailure("its url is not an absolute http(s) URL"))
        }
        let seconds: Double? =
            switch answer.expires {
            case nil: nil
            case .seconds(let seconds): seconds
            case .moment(let text): feedDate(text).map { Double($0) - Double(now) }
            }
        guard answer.expires == nil || seconds?.isFinite == true else {
            return .failure(PlaceFailure("its expires is neither seconds nor a date as RFC 3339 writes it"))
        }
        if let key = answer.key, key.isEmpty || key.utf8.count > longestKey {
            return .failure(PlaceFailure("its key is empty, or longer than \(longestKey) bytes"))
        }
        let headers = (answer.headers ?? [:]).sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
        return .success(PlaceAnswer(url: url, headers: headers, lifetime: seconds.map(life), key: answer.key))
    }

    private static func life(_ seconds: Double) -> Duration { .seconds(min(max(seconds, 0), longestLife)) }

    /// For the log.
    private func reason(of failure: CommandFailure) -> String {
        switch failure {
        case .notStarted(let number): "cannot be run: \(reelfs.reason(number))"
        case .timedOut: "did not answer in time"
        case .tooLong: "wrote more than \(Self.longestAnswer / 1024) KiB"
        case .status, .signal: failure.fullWords
        case .stopped: "was stopped, as the mount ends"
        }
    }
}
