import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume
@testable import reelfs

/// The user's resolver as a command.
@Suite struct ResolverCommandTests {
    private static let url = ResourceURL("http://h/pages/The%20Film.html?id=7")!

    /// Runs a shell script as the resolver. - Returns: the place, or why there is none.
    private func run(
        _ script: String, _ reason: PlaceQuestion.Reason = .open, status: Int? = nil,
        within limit: Duration = .seconds(5)
    ) throws -> Result<PlaceAnswer, PlaceFailure> {
        try withTemporaryDirectory { directory in
            let path = directory + "/resolver"
            defer { unlink(path) }
            try #require(writeFile(path, script))
            let command = ResolverCommand(try #require(Command(parsing: "/bin/sh \(path)")))
            let question = PlaceQuestion(url: Self.url, reason: reason, status: status)
            let answer = Monitor<Result<PlaceAnswer, PlaceFailure>?>(nil)
            // As the daemon does: there a command that does not read its question raises no SIGPIPE.
            Thread("resolver") {
                let found = command.find(question, within: limit)
                answer.withLock { $0 = found }
            }?.detach()
            return try #require(answer.wait(atMost: .seconds(30)) { $0 })
        }
    }

    private func writeFile(_ path: String, _ text: String) -> Bool {
        guard let file = fopen(path, "w") else { return false }
        defer { fclose(file) }
        return fputs(text, file) >= 0
    }

    private func reason(_ found: Result<PlaceAnswer, PlaceFailure>) -> String? {
        if case .failure(let failure) = found { failure.reason } else { nil }
    }

    @Test func itGetsTheQuestionAndTellsAPlace() throws {
        let script = """
            read -r line
            case $line in
            *'"name":"The Film.html"'*'"reason":"failed"'*'"status":403'*'"url":"http://h/pages/The%20Film.html?id=7"'*) ;;
            *) exit 3 ;;
            esac
            echo '{"url":"https://cdn/film?sig=1","headers":{"X-A":"1","Cookie":"b"},"expires":60,"key":"tt1"}'
            """
        let place = try run(script, .failed, status: 403).get()
        #expect(place.url.text == "https://cdn/film?sig=1" && place.key == "tt1" && place.lifetime == .seconds(60))
        #expect(place.headers.map { "\($0.name): \($0.value)" } == ["Cookie: b", "X-A: 1"])
    }

    @Test(
        arguments: [
            (#"{"url":"http://h/"}"#, nil), (#"{"url":"http://h/","expires":1.5}"#, .milliseconds(1500)),
            (#"{"url":"http://h/","expires":-1}"#, .zero),
            (#"{"url":"http://h/","expires":"2024-05-01T12:34:56Z"}"#, .seconds(10)),
            (#"{"url":"http://h/","expires":"2024-05-01T14:34:56+02:00"}"#, .seconds(10)),
            (#"{"url":"http://h/","expires":1e300}"#, .seconds(10 * 365 * 86_400)),
        ] as [(String, Duration?)])
    func anAnswerMaySayUntilWhen(_ text: String, _ lifetime: Duration?) throws {
        #expect(try ResolverCommand.read(Array(text.utf8), now: 1_714_566_886).get().lifetime == lifetime)
    }

    @Test(arguments: [
        "", "noise", "{}", "[]", #"{"url":7}"#, #"{"url":"file:///etc/passwd"}"#, #"{"url":"/relative"}"#,
        #"{"url":"http://h/","expires":"soon"}"#, #"{"url":"http://h/","expires":{}}"#,
        #"{"url":"http://h/","key":""}"#, #"{"url":"http://h/","headers":["a"]}"#,
    ])
    func otherOutputIsNoAnswer(_ text: String) {
        #expect(reason(ResolverCommand.read(Array(text.utf8))) != nil)
    }

    @Test func aFailureTellsTheLastLineWithoutItsSecrets() throws {
        let script = "echo first >&2; echo 'gone: https://me:pw@h/film?sig=s3cret now' >&2; exit 4"
        let told = try #require(reason(run(script)))
        #expect(told.contains("status 4: gone: ") && told.contains("now"))
        #expect(!told.contains("s3cret") && !told.contains("pw") && !told.contains("first"))
    }

    @Test(
        arguments: [
            ("sleep 600", "in time"), ("trap '' TERM; while :; do :; done", "in time"), ("kill -KILL $$", "signal 9"),
            ("yes", "more than 64 KiB"), ("exit 1", "status 1"), ("exec 1>&-; exit 0", "not one JSON object"),
        ])
    func itNeverHangs(_ script: String, _ told: String) throws {
        // What ends by itself has time for it on a busy machine, too.
        let limit = told == "in time" ? Duration.milliseconds(800) : .seconds(25)
        #expect(try reason(run(script, within: limit))?.contains(told) == true)
    }
}
