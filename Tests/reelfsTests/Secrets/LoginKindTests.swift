import Glibc
import ReelCore
import ReelHTTP
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import reelfs

/// Which of several logins is sent, and which one `reelfs doctor` names.
@Suite struct LoginKindTests {
    struct Given: CustomTestStringConvertible, Sendable {
        var header: String?
        /// Lines of the credentials file.
        var file: String?
        var hasCommand = false
        var hasKeys = false
        var hasURLPassword = false
        var hasNetrc = false
        /// The begin of the only field `Authorization`, nil if there is none.
        var sent: String?
        var named: LoginKind

        var testDescription: String {
            let words = [
                header.map { "header \($0)" }, file, hasCommand ? "command" : nil, hasKeys ? "bucket" : nil,
                hasURLPassword ? "URL" : nil, hasNetrc ? "netrc" : nil,
            ]
            return words.compactMap { $0?.split(separator: "\n").joined(separator: ", ") }.joined(separator: " + ")
        }
    }

    private static let keys = "username=AKID\npassword=secret"
    private static let own = "Authorization: Own one"

    static let all = [
        Given(sent: nil, named: .none),
        Given(header: own, file: keys, hasKeys: true, sent: "Own one", named: .header),
        Given(file: keys + "\nheader=authorization: Own two", hasKeys: true, sent: "Own two", named: .header),
        Given(file: keys + "\ntoken=session", hasKeys: true, sent: "AWS4-HMAC-SHA256 ", named: .signature),
        Given(header: own, hasNetrc: true, sent: "Own one", named: .header),
        Given(header: own, hasURLPassword: true, hasNetrc: true, sent: "Own one", named: .header),
        Given(header: own, file: "username=joe\npassword=file", sent: "Own one", named: .header),
        Given(header: own, hasCommand: true, sent: "Own one", named: .header),
        Given(file: "token=t1", hasCommand: true, hasURLPassword: true, sent: "Bearer t1", named: .token),
        Given(hasCommand: true, hasURLPassword: true, hasNetrc: true, sent: "Bearer printed", named: .tokenCommand),
        Given(file: keys, hasCommand: true, hasKeys: true, sent: "AWS4-HMAC-SHA256 ", named: .signature),
        Given(file: "username=joe\npassword=file", hasNetrc: true, sent: "Basic am9lOmZpbGU=", named: .password),
        Given(hasURLPassword: true, hasNetrc: true, sent: "Basic bWU6dXJs", named: .password),
        Given(hasNetrc: true, sent: "Basic bmV0OnJj", named: .netrc),
        Given(header: "X-Key: 1", hasNetrc: true, sent: "Basic bmV0OnJj", named: .netrc),
        Given(header: "X-Key: 1", sent: nil, named: .otherHeader),
    ]

    @Test("Of several logins one is sent, and doctor names that one", arguments: all)
    func named(_ given: Given) throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        defer { server.stop() }
        try withTemporaryDirectory { place in
            defer { removeTree(place) }
            var options = MountOptions()
            if let header = given.header { try options.apply(GivenOption("header", header)) }
            if given.hasCommand { try options.apply(GivenOption("token-command", "/bin/echo printed")) }
            let file = try given.file.map { try CredentialFile(parsing: $0, path: "/login") }
            let plain = server.url("/films/", credentials: given.hasURLPassword ? "me:url" : nil)
            let source = given.hasKeys ? "s3+\(server.url("/").text)#films" : plain.text
            let url =
                try given.hasKeys
                ? #require(S3Address(source)).root : ResourceURL(file?.source(plain) ?? "") ?? plain
            var configuration = try TransportConfiguration(url, options, file, hasKeys: given.hasKeys)
            configuration.usesProxies = false
            configuration.netrcFile = place + "/netrc"
            let lines = given.hasNetrc ? "machine 127.0.0.1 login net password rc\n" : ""
            let stream = try #require(fopen(place + "/netrc", "we"))
            fputs(lines, stream)
            fclose(stream)
            let commands = CommandRuns()
            defer { commands.stop() }
            configuration = configuration.running(options, with: commands) {
                if let trouble = $0 { Issue.record("\(trouble)") }
            }
            let origin = try CurlOrigin(configuration)
            defer { origin.shutdown() }
            var request = OriginRequest(url: url, stallLimit: .seconds(20))
            if given.hasKeys { request = try #require(S3Source.recognise(address: source)).request(request) }
            let end = Ending()
            _ = origin.start(request, end)
            #expect(end.isOver.wait(atMost: .seconds(20)) { $0 ? true : nil } == true)
            let sent = try #require(server.requests.first).headers.filter { $0.name == "authorization" }.map(\.value)
            let isRight = sent.count == (given.sent == nil ? 0 : 1) && sent.first?.hasPrefix(given.sent ?? "") != false
            #expect(isRight, "\(sent)")
            #expect(LoginKind(request, options, file, configuration) == given.named)
        }
    }
}

private final class Ending: OriginReceiver {
    let isOver = Monitor(false)

    func head(_: ResponseHead) -> OriginFailure? { nil }
    func body(_: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_: OriginFailure?) { isOver.withLock { $0 = true } }
}
