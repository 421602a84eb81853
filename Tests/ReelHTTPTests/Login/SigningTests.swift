import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelHTTP

/// AWS Signature Version 4, and what of it reaches which origin. `BucketTests` has a service check the signatures.
@Suite struct SigningTests {
    private static let key = SigningKey(
        id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token: nil)

    @Test func aKeyDoesNotPrintItself() {
        var text = "\(Self.key) \(String(reflecting: Self.key))"
        var configuration = TransportConfiguration(version: "test")
        configuration.signingKey = Self.key
        text += "\(configuration)"
        dump(Self.key, to: &text)
        #expect(!text.contains("EXAMPLE"))
    }

    /// The signatures are those that botocore 1.43 makes of the same requests.
    @Test(arguments: [
        (
            "GET", "/films/a/../.%2F//b?list-type=2&prefix=a%2Bb", "127.0.0.1:9000", "session",
            "0db2b5a8ebd4d7a91f378b2c19c56089ae397156f38320ba18a6cd15a2c16723"
        ),
        (
            "PUT", "/a%20b", "films.s3.amazonaws.com", nil as String?,
            "d9686ae10d0409cd7093f806a41be56b76a9c9d7d9fb7f3157011fa3f71a8464"
        ),
    ])
    func aSignatureIsThatOfAmazonsOwnLibrary(
        _ method: String, _ target: String, _ host: String, _ token: String?, _ signature: String
    ) {
        let key = SigningKey(id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token: token)
        let headers = token == nil ? [] : [("Range", "bytes=0-9"), ("X-Amz-Request-Payer", "requester   twice ")]
        let fields = key.sign(method, target, of: host, headers: headers, in: "us-east-1", at: 1_369_353_600)
        #expect(fields.first { $0.name == "x-amz-date" }?.value == "20130524T000000Z")
        #expect(fields.last?.value.hasSuffix(", Signature=" + signature) == true)
    }

    /// A redirect spells its target as its server likes, and the server makes the canonical form of it.
    @Test(
        arguments: [
            ("/films/a%7eb", "/films/a~b"), ("/a+b(1)", "/a%2Bb%281%29"), ("/a/%2f/../", "/a/%2F/../"),
            ("/f?b=2&a=x+y&a=%41&c", "/f?a=A&a=x%20y&b=2&c="), ("/f?", "/f"), ("/%e9%", "/%E9%25"),
            ("/f?k==&&k=/", "/f?k=%2F&k=%3D"),
        ])
    func aTargetIsSignedInItsCanonicalForm(_ target: String, _ canonical: String) {
        func sign(_ target: String) -> String? {
            Self.key.sign("GET", target, of: "h", headers: [], in: "us-east-1", at: 0).last?.value
        }
        #expect(sign(target) == sign(canonical))
        let (path, query) = SignedTarget.canonical(target)
        #expect(path + (query.isEmpty ? "" : "?" + query) == canonical)
    }

    @Test func theHostThatIsSentIsTheOneThatIsSigned() {
        func sign(_ host: String, _ headers: [(name: String, value: String)]) -> String? {
            Self.key.sign("GET", "/a", of: host, headers: headers, in: "us-east-1", at: 0).last?.value
        }
        #expect(sign("a.example:9000", [("Host", "b.example")]) == sign("b.example", []))
        #expect(sign("a.example:9000", []) != sign("b.example", []))
    }

    private func request(_ url: ResourceURL, _ target: String? = nil, isRegional: Bool = false) -> OriginRequest {
        var request = OriginRequest(url: url, range: ByteRange(0, 4), stallLimit: .seconds(5))
        request.signed = SignedTarget(text: target ?? url.path, isRegional: isRegional)
        return request
    }

    private func fetch(_ origin: CurlOrigin, _ request: OriginRequest) -> Recorder.Record {
        let recorder = Recorder()
        origin.start(request, recorder)
        return recorder.finished()
    }

    private func sign(_ server: ScriptedServer, token: String? = nil) -> (inout TransportConfiguration) -> Void {
        {
            $0.signingKey = SigningKey(id: "AKIDEXAMPLE", secret: "secret", token: token)
            $0.trustedOrigins = [server.url("/").origin]
        }
    }

    @Test func pathAndQueryAreSentAsTheyAreSigned() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        let target = "/films/a/../.%2F//b?prefix=%21"
        try withTransport(to: server, sign(server, token: "session")) { origin in
            #expect(fetch(origin, request(server.url("/films/a/..!"), target)).failure == nil)
            let sent = try #require(server.requests.first)
            #expect(sent.target == target && sent["x-amz-security-token"] == "session")
            #expect(sent["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD")
            let day = try #require(sent["x-amz-date"]).prefix(8)
            #expect(signature(of: sent)["Credential"] == "AKIDEXAMPLE/\(day)/us-east-1/s3/aws4_request")
            let digits = try #require(signature(of: sent)["Signature"])
            #expect(digits.count == 64 && digits.allSatisfy(\.isHexDigit))
        }
    }

    @Test func aHeaderOfTheUsersOwnGoesBeforeASignature() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        try withTransport(to: server) {
            sign(server)(&$0)
            $0.headers = [("authorization", "Bearer own")]
        } _: { origin in
            #expect(fetch(origin, request(server.url("/a"))).failure == nil)
            let sent = try #require(server.requests.first)
            #expect(sent.headers.filter { $0.name == "authorization" }.map(\.value) == ["Bearer own"])
            #expect(sent["x-amz-date"] == nil)
        }
    }

    /// A proxy may change the others on their way.
    @Test func theHostAndAllOfAmazonsHeadersAreSignedAndNoneThatProxiesChange() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        try withTransport(to: server) {
            sign(server, token: "session")(&$0)
            $0.headers = [("X-Amz-Request-Payer", "requester")]
        } _: { origin in
            #expect(fetch(origin, request(server.url("/a"))).failure == nil)
            let sent = try #require(server.requests.first)
            let signed = try #require(signature(of: sent)["SignedHeaders"]).split(separator: ";").map(String.init)
            let amazons = ["content-sha256", "date", "request-payer", "security-token"].map { "x-amz-" + $0 }
            #expect(signed == ["host"] + amazons)
            #expect(sent["accept-encoding"] == "identity" && sent["x-amz-request-payer"] == "requester")
        }
    }

    /// The parts of the header Authorization, by their names.
    private func signature(of sent: ServerRequest) -> [String: String] {
        let scheme = "AWS4-HMAC-SHA256 "
        guard let value = sent["authorization"], value.hasPrefix(scheme) else { return [:] }
        let fields = value.dropFirst(scheme.count).split(separator: ",").map { field in
            field.drop { $0 == " " }.split(separator: "=", maxSplits: 1).map(String.init)
        }
        return Dictionary(fields.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { $1 }
    }

    /// A service that takes one session's token at a time.
    private func service(_ token: Shared<String>, refusal: (status: Int, code: String)) throws -> ScriptedServer {
        try ScriptedServer { request in
            if request["x-amz-security-token"] == token.value { return ServerStep.answer(200, [], body: "here") }
            let body = "<?xml version=\"1.0\"?>\n<Error><Code>\(refusal.code)</Code><Message>no</Message></Error>"
            return ServerStep.answer(refusal.status, [("Content-Type", "application/xml")], body: body)
        }
    }

    @Test(
        "Keys that have expired are read again, once for all requests that wait",
        arguments: [(400, "ExpiredToken"), (400, "InvalidToken"), (403, "ExpiredToken"), (403, "InvalidAccessKeyId")])
    func renewal(status: Int, code: String) throws {
        let (token, reads) = (Shared("first"), Shared(0))
        let server = try service(token, refusal: (status, code))
        try withTransport(to: server) {
            sign(server, token: "first")(&$0)
            $0.keySource = { deliver in
                reads.change { $0 += 1 }
                let key = SigningKey(id: "AKIDEXAMPLE", secret: "secret", token: token.value)
                Thread("keys") { deliver(key) }?.detach()
            }
        } _: { origin in
            #expect(fetch(origin, request(server.url("/a"))).failure == nil)
            #expect(reads.value == 0)
            token.set("second")
            let recorders = (0..<8).map { _ in Recorder() }
            for recorder in recorders { origin.start(request(server.url("/a")), recorder) }
            for recorder in recorders { #expect(recorder.finished().failure == nil) }
            #expect(reads.value == 1)
            // A session that is over for good is not asked for all the time.
            token.set("third")
            reads.set(0)
            #expect(fetch(origin, request(server.url("/a"))).failure == nil)
            #expect(reads.value == 1)
        }
    }

    @Test("Keys that are refused when they were just read end the request, and so does any other refusal")
    func noRenewal() throws {
        for (code, expected) in [("ExpiredToken", 1), ("AccessDenied", 0), ("SignatureDoesNotMatch", 0)] {
            let reads = Shared(0)
            let server = try service(Shared("never"), refusal: (403, code))
            try withTransport(to: server) {
                sign(server, token: "first")(&$0)
                $0.keySource = { deliver in
                    reads.change { $0 += 1 }
                    deliver(SigningKey(id: "AKIDEXAMPLE", secret: "secret", token: "again"))
                }
            } _: { origin in
                for _ in 0..<3 {
                    #expect(fetch(origin, request(server.url("/a"))).failure == .status(403, retryAfter: nil))
                }
                #expect(reads.value == expected, "\(code)")
                #expect(server.requests.count == 3 + expected)
            }
        }
    }

    @Test func withoutAKeyAndToOriginsThatAreNotTrustedNothingIsSigned() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        try withTransport(to: server, { $0.trustedOrigins = ["http://other"] }) { origin in
            #expect(fetch(origin, request(server.url("/a"), "/b")).failure == nil)
        }
        let other = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        try withTransport(to: other) {
            $0.trustedOrigins = ["http://other"]; $0.signingKey = Self.key
        } _: { origin in
            #expect(fetch(origin, request(other.url("/a"), "/b")).failure == nil)
        }
        for sent in server.requests + other.requests {
            #expect(sent.target == "/b" && sent["authorization"] == nil && sent["x-amz-date"] == nil)
        }
    }

    @Test func aRedirectElsewhereTakesNothingOfASignatureAlong() throws {
        let other = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        defer { other.stop() }
        let place = other.url("/there").text
        let server = try ScriptedServer { _ in ServerStep.answer(307, [("Location", place)]) }
        try withTransport(to: server, sign(server, token: "session")) { origin in
            for _ in 0..<2 { #expect(fetch(origin, request(server.url("/a"))).failure == nil) }
            #expect(server.requests.count == 1 && server.requests[0]["authorization"] != nil)
            #expect(other.requests.count == 2)
            for sent in other.requests {
                #expect(sent["authorization"] == nil && !sent.headers.contains { $0.name.hasPrefix("x-amz") })
            }
        }
    }

    @Test(arguments: [(400, true), (301, true), (403, true), (400, false), (301, false)])
    func theRegionThatAnAnswerNamesIsSignedFromThenOn(_ status: Int, _ isInHeader: Bool) throws {
        let server = try ScriptedServer { request in
            if request["authorization"]?.contains("/eu-west-1/s3/") == true {
                return ServerStep.answer(200, [], body: "here")
            }
            return isInHeader
                ? ServerStep.answer(status, [("x-amz-bucket-region", "eu-west-1")])
                : ServerStep.answer(status, body: "<?xml?><Error><Code>X</Code><Region>eu-west-1</Region></Error>")
        }
        try withTransport(to: server, sign(server)) { origin in
            for _ in 0..<2 { #expect(fetch(origin, request(server.url("/a"))).failure == nil) }
            #expect(server.requests.count == 3)
        }
    }

    @Test(arguments: ["us-east-1", "evil.example/", "", "a b", String(repeating: "a", count: 99)])
    func whatIsNoOtherRegionIsARefusal(_ region: String) throws {
        let server = try ScriptedServer { _ in
            ServerStep.answer(
                400, [("x-amz-bucket-region", region)], body: "<Error><Region>\(region)</Region></Error>")
        }
        try withTransport(to: server, sign(server)) { origin in
            #expect(fetch(origin, request(server.url("/a"))).failure == .status(400, retryAfter: nil))
            #expect(server.requests.count == 1)
        }
    }

    @Test func anOriginThatNamesAnotherRegionEachTimeIsRefused() throws {
        let server = try ScriptedServer { request in
            ServerStep.answer(400, [("x-amz-bucket-region", "region-\(request.number)")])
        }
        try withTransport(to: server, sign(server)) { origin in
            #expect(fetch(origin, request(server.url("/a"))).failure == .status(400, retryAfter: nil))
            #expect(server.requests.count == 1 + Route.repeatLimit)
        }
    }

    @Test(
        arguments: [
            ("https://films.s3.amazonaws.com/a", "eu-west-1", "https://films.s3.eu-west-1.amazonaws.com/a"),
            ("https://s3.amazonaws.com/my.films/a?b", "eu-west-1", "https://s3.eu-west-1.amazonaws.com/my.films/a?b"),
            ("https://films.s3.amazonaws.com/", "cn-north-1", "https://films.s3.cn-north-1.amazonaws.com.cn/"),
            ("https://films.s3.amazonaws.com/", nil, "https://films.s3.amazonaws.com/"),
            ("https://films.s3.amazonaws.com/", "x.evil.example/", "https://films.s3.amazonaws.com/"),
            ("https://evil.example/", "eu-west-1", "https://evil.example/"),
        ] as [(String, String?, String)])
    func aRegionHasAHostOfItsOwn(_ url: String, _ region: String?, _ place: String) {
        let signed = SignedTarget(text: "/", isRegional: true)
        #expect(signed.place(of: ResourceURL(url)!, in: region).text == place)
    }

    @Test(arguments: ["", "no slash", "/a b", "/a\r\nEvil: 1", "/é", "/a#b"])
    func whatCannotStandInTheFirstLineIsNotSent(_ target: String) throws {
        let server = try ScriptedServer { _ in ServerStep.answer(200, [], body: "here") }
        try withTransport(to: server, sign(server)) { origin in
            guard case .wrongAnswer = fetch(origin, request(server.url("/a"), target)).failure else {
                throw Unexpected(nil)
            }
            #expect(server.requests.isEmpty)
        }
    }

    @Test(
        arguments: [
            ("", nil, nil), ("a,b", nil, nil), ("a\nb", nil, nil), ("a", "b\r\nEvil: 1", nil), ("a", nil, ""),
            ("a", nil, "b:c"), ("a", nil, "b/c"), ("a", nil, String(repeating: "b", count: 65)),
        ] as [(String, String?, String?)])
    func keysAndRegionsThatAddToARequestMakeNoTransport(_ id: String, _ token: String?, _ region: String?) {
        var configuration = TransportConfiguration(version: "test")
        configuration.region = region
        configuration.signingKey = SigningKey(id: id, secret: "s", token: token)
        #expect(throws: TransportError.badSigningKey) { try CurlOrigin(configuration) }
    }
}
