import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// AWS Signature Version 4, and what of it reaches which origin.
@Suite struct SigningTests {
    private static let key = SigningKey(
        id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token: nil)

    /// Python's hashlib.
    @Test(arguments: [
        (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (3, "ce562c676ea7aba9812f54db146b0096011bf3e423edfb0a6f8fb2b02674a801"),
        (55, "16fa57a0a3423a715d594516339f36189d6b5f93754a9714fef202616a9fabfe"),
        (56, "c37b44e5f1b18554b36966f4f8e08bfbf3164c4b6c10374d12d89850892073c5"),
        (63, "bbba992d2c85af960fb2987a1fd05e0aa82a3db3c740dd8982a9e273b75e36a3"),
        (64, "66bd4633ed6f71c4ecfa4763bf7ba1c8ec7612de9aa6c0578a7b675207c71e0b"),
        (65, "9f7dc47107b750a1f3d35db5d9547f24ef40da5b731b9540d4f43710a154f6c9"),
        (119, "a3ed307b730fa77c07531300c6e4a282330011d4d4caf6bb7b63ae05950f4b66"),
        (120, "8e3b15d9fea7472655aa069620b7f8c2e55ee1499f763200a7515fe826e99d20"),
        (200, "397276ea1f65a10cbd90e9d622ab533cf9fc4e14056fc9915feb8f4a52d47dc7"),
        (1000, "095ecb62e30793ab4b954cd6a0586d0cc91f7ea5b1332694d8da780e98676d78"),
    ])
    func theDigestOfAnyLengthIsThatOfAnotherProgram(_ count: Int, _ digest: String) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7 + 1) }
        #expect(hexadecimal(SHA256.digest(bytes)) == digest)
    }

    /// RFC 4231, cases 2 and 6.
    @Test(arguments: [
        (
            Array("Jefe".utf8), "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xAA, count: 131), "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ])
    func theCodeOfAMessageIsThatOfTheStandard(_ key: [UInt8], _ message: String, _ code: String) {
        #expect(hexadecimal(SHA256.authenticate(message.utf8, key: key)) == code)
    }

    /// Computed by botocore 1.43.
    @Test(
        arguments: [
            (
                "http://127.0.0.1:9000/", "/films/a%20b%2B%25%3F%23%26%3D%3B%27%2A%C3%A9", nil, nil,
                "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                    + "Signature=4048865ad40e5c751c26d032df314167309e39a1e509dc4f132ee90d416deddf"
            ),
            (
                "https://films.s3.eu-west-1.amazonaws.com/", "/../.%2Fa//b/", "TOKEN/+==", nil,
                "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
                    + "Signature=1b7b476686c618a80520de8d04dab9e833e09f4e0253190ae2f70dbd6dd4d47f"
            ),
            (
                "http://127.0.0.1:9000/",
                "/films?continuation-token=a%2Fb%3D%3D&delimiter=%2F&encoding-type=url&list-type=2&prefix=x%20y%2F",
                nil,
                "requester",
                "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-request-payer, "
                    + "Signature=ee21c0530129ff000bd8205cfab522236ddacb4b16dc2af3005969980f7d8966"
            ),
        ] as [(String, String, String?, String?, String)])
    func aSignatureIsThatOfAnotherProgram(
        _ place: String, _ target: String, _ token: String?, _ payer: String?, _ end: String
    ) throws {
        let key = SigningKey(id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token: token)
        let headers = [("Accept", "any")] + (payer.map { [("X-Amz-Request-Payer", $0)] } ?? [])
        let signed = key.headers(
            signing: "GET", target, at: ResourceURL(place)!, headers, body: [], region: "eu-west-1",
            time: 1_795_368_000)
        let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261122/eu-west-1/s3/aws4_request, "
        #expect(signed.last?.value == start + end)
        #expect(signed.first { $0.name == "x-amz-date" }?.value == "20261122T172000Z")
        #expect(signed.first { $0.name == "x-amz-security-token" }?.value == token)
    }

    @Test func aKeyDoesNotPrintItself() {
        var text = "\(Self.key) \(String(reflecting: Self.key))"
        var configuration = TransportConfiguration(version: "test")
        configuration.signingKey = Self.key
        text += "\(configuration)"
        dump(Self.key, to: &text)
        #expect(!text.contains("EXAMPLE") && !text.contains("87, 74, 97"))
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
            let scope = "/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
            #expect(sent["authorization"]?.contains(scope + "x-amz-security-token, ") == true)
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
            #expect(server.requests.count == 1 + Transfer.askLimit)
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

    @Test(arguments: [("", nil), ("a,b", nil), ("a\nb", nil), ("a", "b\r\nEvil: 1")] as [(String, String?)])
    func keysThatAddLinesMakeNoTransport(_ id: String, _ token: String?) {
        var configuration = TransportConfiguration(version: "test")
        configuration.signingKey = SigningKey(id: id, secret: "s", token: token)
        #expect(throws: TransportError.badSigningKey) { try CurlOrigin(configuration) }
    }
}
