import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelHTTP

/// Logins: challenges, Digest, tokens, cookies, certificates, `.netrc`.
@Suite struct LoginTests {
    private let mine = ResourceURL.Credentials(user: "Mufasa", password: "Circle of Life")

    @Test(
        arguments: [
            ("Basic realm=\"a b\"", ["basic[realm=a b]"]),
            ("Digest realm=\"a, \\\"b\\\"\",nonce=xyz , stale=TRUE", ["digest[nonce=xyz,realm=a, \"b\",stale=TRUE]"]),
            ("Digest nonce = \"1\", Basic realm=x, Negotiate", ["digest[nonce=1]", "basic[realm=x]", "negotiate[]"]),
            ("Negotiate abc==, Basic realm=\"x\"", ["negotiate[abc==]", "basic[realm=x]"]),
            ("", []), (",,=", []), ("Digest nonce=\"open", ["digest[nonce=open]"]),
            ("Basic realm=1, realm=2", ["basic[realm=1]"]),
        ])
    func aChallengeIsRead(text: String, expected: [String]) {
        let found = LoginChallenge.parse(text).map { challenge in
            let fields = challenge.parameters.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
            return "\(challenge.scheme)[\(fields.joined(separator: ","))]"
        }
        #expect(found == expected)
    }

    /// RFC 7616, section 3.9.1, and RFC 2617, section 3.5 without qop (computed with Python's hashlib).
    @Test func aDigestIsAsItsStandardComputesIt() throws {
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
        let clientNonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
        let challenge =
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=%, nonce=\"\(nonce)\", "
            + "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let text = String(challenge.flatMap { $0 == "%" ? Array(algorithm) : [$0] })
            var login = try #require(DigestSession.strongest(of: LoginChallenge.parse(text)))
            let answer = login.answer("GET", "/dir/index.html", mine, clientNonce: clientNonce)
            #expect(answer?.contains("response=\"\(response)\"") == true, "\(answer ?? "")")
            #expect(answer?.contains("nc=00000001, qop=auth") == true)
            #expect(login.answer("GET", "/", mine)?.contains("nc=00000002") == true)
        }
    }

    @Test func aQuoteIsEscapedWhateverMarkCombinesWithIt() throws {
        var login = try #require(DigestSession.strongest(of: LoginChallenge.parse("Digest realm=a, nonce=b")))
        let pair = ResourceURL.Credentials(user: "x\"\u{301}\\\u{301}", password: "")
        let answer = login.answer("GET", "/", pair) ?? ""
        let expected = "Digest username=\"x\\\"\u{301}\\\\\u{301}\", realm="
        #expect(answer.utf8.starts(with: expected.utf8), "\(answer)")
    }

    @Test(
        arguments: [
            "Digest realm=a", "Digest nonce=a", "Basic realm=a", "Digest realm=a, nonce=b, algorithm=SHA-512-256",
            "Digest realm=a, nonce=b, qop=\"auth-int\"", "Digest realm=\"a\u{1}\", nonce=b",
            "Digest realm=a, nonce=" + String(repeating: "x", count: LoginChallenge.valueLimit + 1),
        ])
    func aDigestOfAnotherFormIsNone(text: String) {
        #expect(DigestSession.strongest(of: LoginChallenge.parse(text)) == nil)
    }

    @Test func aMirrorGetsTheLoginOfItsOwnHostAlone() throws {
        let netrc = try TemporaryFile("machine 127.0.0.1 login net password rc\n")
        for isMirror in [true, false] {
            let server = try ScriptedServer(["/film": FileOrigin(length: 10)])
            try withTransport(to: server) {
                $0.netrcFile = netrc.path
                $0.trustedOrigins = ["http://source.invalid"]
                $0.headers = [("X-Key", "s3cret")]
                if isMirror { $0.mirrorOrigins = [server.url("/").origin] }
            } _: { origin in
                #expect(origin.fetch(server.url("/film"), ByteRange(0, 1)).bytes.count == 1)
                let asked = try #require(server.requests.first)
                #expect(asked["authorization"] == (isMirror ? "Basic bmV0OnJj" : nil))
                #expect(asked["x-key"] == nil)
            }
        }
    }

    @Test func theStrongerDigestIsTaken() throws {
        let text = "Digest realm=a, nonce=b, algorithm=MD5, Digest realm=a, nonce=c, algorithm=SHA-256, Basic realm=a"
        #expect(DigestSession.strongest(of: LoginChallenge.parse(text))?.nonce == "c")
    }

    /// An origin that wants Digest and takes each nonce so often. Whether an answer is right, real servers check.
    private static func digestScript(usesOfNonce: Int, offersBasic: Bool = false) -> ScriptedServer.Script {
        let state = Mutex((nonce: 0, uses: 0))
        return { request in
            let given = request["authorization"].map { LoginChallenge.parse($0) }?.first
            let answer = state.withLock { state -> (isRight: Bool, isStale: Bool, nonce: Int) in
                let isKnown = given?.scheme == "digest"
                let isCurrent = given?.parameters["nonce"] == "n\(state.nonce)" && state.uses < usesOfNonce
                if isCurrent { state.uses += 1 } else { state = (state.nonce + 1, 0) }
                return (isKnown && isCurrent && given?.parameters["uri"] == request.target, isKnown, state.nonce)
            }
            if answer.isRight { return ServerStep.answer(body: "x") }
            let stale = answer.isStale ? ", stale=true" : ""
            let digest = [("WWW-Authenticate", "Digest realm=\"r\", qop=\"auth\", nonce=\"n\(answer.nonce)\"\(stale)")]
            return ServerStep.answer(401, (offersBasic ? [("WWW-Authenticate", "Basic realm=\"r\"")] : []) + digest)
        }
    }

    @Test(arguments: [false, true])
    func digestCostsOneRoundTripAnOriginAndOneAStaleNonce(offersBasic: Bool) throws {
        let server = try ScriptedServer(Self.digestScript(usesOfNonce: 5, offersBasic: offersBasic))
        try withTransport(to: server) { origin in
            for number in 0..<12 {
                #expect(origin.fetch(server.url("/\(number)?a=b", credentials: "me:secret")).failure == nil)
            }
            let logins = server.requests.map { $0["authorization"]?.prefix(6).lowercased() ?? "" }
            // Basic goes out once, before the origin has said what it wants.
            #expect(logins == ["basic "] + [String](repeating: "digest", count: 14))
            #expect(server.connectionCount == 1)
        }
    }

    @Test func aRefusalThatItsReceiverTakesIsAnsweredByALoginFirst() throws {
        let server = try ScriptedServer(Self.digestScript(usesOfNonce: 5))
        try withTransport(to: server) { origin in
            var request = OriginRequest(url: server.url("/list", credentials: "me:secret"))
            request.accepted = [200, 401]
            let recorder = Recorder()
            origin.start(request, recorder)
            let record = recorder.finished()
            #expect(record.heads.map(\.status) == [200] && record.bytes == Array("x".utf8))
        }
    }

    @Test func theNextNonceIsUsed() throws {
        let server = try ScriptedServer { request in
            let used = request["authorization"].map { LoginChallenge.parse($0) }?.first?.parameters
            let number = Int(used?["nonce"]?.dropFirst() ?? "") ?? -1
            guard number == request.number - 1, used?["nc"] == "00000001" else {
                return ServerStep.answer(
                    401, [("WWW-Authenticate", "Digest realm=r, qop=auth, nonce=n\(request.number)")])
            }
            return ServerStep.answer(200, [("Authentication-Info", "nextnonce=\"n\(request.number)\"")], body: "x")
        }
        try withTransport(to: server) { origin in
            for _ in 0..<5 { #expect(origin.fetch(server.url("/", credentials: "me:secret")).failure == nil) }
            #expect(server.requests.count == 6)
        }
    }

    @Test func aWrongPasswordEndsAfterOneDigest() throws {
        let server = try ScriptedServer { request in
            ServerStep.answer(401, [("WWW-Authenticate", "Digest realm=r, qop=auth, nonce=n\(request.number)")])
        }
        try withTransport(to: server) { origin in
            for _ in 0..<2 {
                let record = origin.fetch(server.url("/", credentials: "me:wrong"))
                #expect(record.failure == .status(401, retryAfter: nil))
            }
            #expect(server.requests.count == 3)
        }
    }

    /// Also where the form of Digest is not known here, or another place of the origin would take Basic.
    @Test(arguments: ["Digest realm=r, nonce=n, algorithm=NEW", "Digest realm=r, nonce=n"])
    func basicIsNeverSentToWhomHasAskedForDigest(challenge: String) throws {
        let server = try ScriptedServer { request in
            if request["authorization"]?.hasPrefix("Digest") == true, request.path == "/digest" {
                return ServerStep.answer(body: "x")
            }
            let wanted = request.path == "/basic" ? "Basic realm=r" : challenge
            return ServerStep.answer(401, [("WWW-Authenticate", wanted)])
        }
        try withTransport(to: server) { origin in
            for path in ["/digest", "/basic", "/digest", "/basic"] {
                _ = origin.fetch(server.url(path, credentials: "me:secret"))
            }
            #expect(server.requests.count { $0["authorization"]?.hasPrefix("Basic") == true } == 1)
        }
    }

    @Test(
        arguments: [
            ("machine h login a password b", "a:b"), ("machine H\n login a\n password \"b c\\\"d\"", "a:b c\"d"),
            ("machine other login a password b", nil),
            ("machine other login a password b default login c password d", "c:d"),
            ("default login c password d\nmachine h login a password b", "c:d"),
            ("# machine h login x password y\nmachine h account z login a password b#", "a:b#"),
            ("macdef m\nmachine h login x password y\n\nmachine h login a password b", "a:b"),
            ("machine h password b", ":b"), ("machine h", nil), ("machine", nil), ("", nil),
            ("machine h login \"open", "open:"),
        ] as [(String, String?)])
    func netrcIsReadAsCurlReadsIt(text: String, expected: String?) {
        #expect(Netrc.login(for: "h", parsing: text).map { "\($0.user):\($0.password)" } == expected)
    }

    @Test func aNetrcThatHasChangedIsReadAgain() throws {
        let file = try TemporaryFile("machine h login a password b\n")
        var netrc = Netrc(file.path)
        for _ in 0..<2 { #expect(netrc.login(for: "[h]")?.password == "b") }
        #expect(netrc.login(for: "other") == nil)
        let stream = try #require(fopen(file.path, "we"))
        fputs("machine h login a password longer\n", stream)
        fclose(stream)
        // The file is looked at once a second.
        let soon = now() + .seconds(60)
        #expect(netrc.login(for: "h", at: soon)?.password == "longer")
        unlink(file.path)
        #expect(netrc.login(for: "h", at: soon + .milliseconds(999))?.password == "longer")
        #expect(netrc.login(for: "h", at: soon + .seconds(1)) == nil)
    }

    @Test func anEntryThatGoesOnBehindTheEndOfWhatIsReadCountsForNothing() throws {
        let (first, last) = ("machine a login a password b\n", "machine h login a password secret\n")
        // All but the last three letters.
        let filler = Netrc.limit - first.utf8.count - last.utf8.count + 3
        let file = try TemporaryFile(first + "#" + String(repeating: "x", count: filler) + "\n" + last)
        var netrc = Netrc(file.path)
        #expect(netrc.login(for: "h") == nil && netrc.login(for: "a")?.password == "b")
    }

    // MARK: Tokens

    /// Prints a new token each time it is run.
    private final class Printer: Sendable {
        let runs = Mutex(0)
        let gate: Gate?
        init(gate: Gate? = nil) { self.gate = gate }

        func run(_ deliver: @escaping @Sendable (String?) -> Void) {
            let number = runs.withLock { runs in
                runs += 1
                return runs
            }
            startThread { [gate] in
                gate?.wait()
                deliver("t\(number)")
            }.detach()
        }
    }

    @Test func aTokenIsFetchedOnceForManyAndAgainOnceAfterA401() throws {
        let wanted = Mutex("t1")
        let server = try ScriptedServer { request in
            let isRight = wanted.withLock { request["authorization"] == "Bearer " + $0 }
            return isRight ? ServerStep.answer(body: "x") : ServerStep.answer(401)
        }
        let gate = Gate()
        let printer = Printer(gate: gate)
        try withTransport(to: server) {
            $0.tokenSource = printer.run
        } _: { origin in
            for (round, token) in ["t1", "t2"].enumerated() {
                wanted.withLock { $0 = token }
                let recorders = (0..<10).map { _ in Recorder() }
                for (number, recorder) in recorders.enumerated() {
                    origin.start(OriginRequest(url: server.url("/\(number)"), stallLimit: .seconds(5)), recorder)
                }
                gate.open()
                for recorder in recorders { #expect(recorder.finished().failure == nil) }
                #expect(printer.runs.withLock { $0 } == round + 1)
            }
            // Where a second one is refused as well, the command does not run again and again.
            wanted.withLock { $0 = "none" }
            for _ in 0..<3 { #expect(origin.fetch(server.url("/")).failure == .status(401, retryAfter: nil)) }
            #expect(printer.runs.withLock { $0 } == 3)
        }
    }

    @Test func aCommandThatFailsRefusesTheRequestsThatWait() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        let runs = Mutex(0)
        let count: @Sendable () -> Void = { runs.withLock { $0 += 1 } }
        try withTransport(to: server) {
            $0.tokenSource = { deliver in
                count()
                deliver(nil)
            }
        } _: { origin in
            let recorders = (0..<10).map { _ in Recorder() }
            for recorder in recorders {
                origin.start(OriginRequest(url: server.url("/"), stallLimit: .seconds(5)), recorder)
            }
            for recorder in recorders { #expect(recorder.finished().failure == .noLogin) }
            #expect(server.requests.isEmpty && runs.withLock { $0 } == 1)
        }
    }

    @Test func aRequestThatWaitsForATokenCanBeCancelledPromotedAndTimesOut() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        try withTransport(to: server) {
            $0.tokenSource = { _ in }
        } _: { origin in
            let (waits, isCancelled) = (Recorder(), Recorder())
            let url = server.url("/")
            let first = origin.start(OriginRequest(url: url, isDemanded: false, stallLimit: .milliseconds(300)), waits)
            let second = origin.start(OriginRequest(url: url, isDemanded: false, stallLimit: .seconds(60)), isCancelled)
            first.promote()
            second.promote()
            second.cancel()
            #expect(isCancelled.finished().failure == .cancelled && waits.finished().failure == .timedOut)
            #expect(server.requests.isEmpty)
        }
    }

    /// Where another place could be asked instead.
    @Test func theWaitForATokenIsNoSilenceOfThePlace() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        let silent = try ScriptedServer { _ in [.stall] }
        defer { silent.stop() }
        let deliver = Monitor<(@Sendable (String?) -> Void)?>(nil)
        try withTransport(to: server) {
            $0.tokenSource = { body in deliver.withLock { $0 = body } }
            $0.trustedOrigins = [server.url("/").origin]
        } _: { origin in
            let (held, other) = (Recorder(), Recorder())
            var request = OriginRequest(url: server.url("/"), stallLimit: .seconds(60))
            request.silenceLimit = .seconds(2)
            origin.start(request, held)
            let body = try #require(deliver.wait(atMost: .seconds(20)) { $0 })
            // Twice as long.
            origin.start(OriginRequest(url: silent.url("/"), stallLimit: .seconds(4)), other)
            #expect(other.finished().failure == .timedOut)
            #expect(!held.isEnded)
            body("token")
            #expect(held.finished().failure == nil)
            // Once it is sent, it is.
            (request.url, request.silenceLimit) = (silent.url("/"), .milliseconds(100))
            let asked = Recorder()
            origin.start(request, asked)
            #expect(asked.finished().failure == .timedOut)
        }
    }

    // MARK: Cookies and certificates

    @Test(
        "A line of a cookie file is kept for the host that it names and for those below it",
        arguments: [
            ("h", "h", true), (".h.org", "a.H.org", true), ("#HttpOnly_.h.org", "h.org", true),
            ("h.org", "bah.org", false), ("h.org", "org", false), ("", "h", false), ("127.0.0.1", "127.0.0.1", true),
        ])
    func cookieLine(_ domain: String, _ host: String, isFor: Bool) {
        #expect(isCookie("\(domain)\tTRUE\t/\tFALSE\t0\tid\t1", for: host) == isFor)
    }

    @Test func cookiesAreKeptForTheirOriginAndItsPathsAlone() throws {
        let script: ScriptedServer.Script = { request in
            request.path == "/set" || request.method == "PROPFIND"
                ? ServerStep.answer(
                    200,
                    [
                        ("Set-Cookie", "id=\(request.method); Path=/"), ("Set-Cookie", "deep=1; Path=/deep"),
                        ("Set-Cookie", "safe=1; Path=/; Secure; Domain=example.org"),
                    ], body: "x") : ServerStep.answer(body: "x")
        }
        let (server, other) = (try ScriptedServer(script), try ScriptedServer(script))
        defer { other.stop() }
        try withTransport(to: server) { origin in
            for path in ["/set", "/a", "/deep/b"] { _ = origin.fetch(server.url(path)) }
            #expect(server.requests.map { $0["cookie"] } == [nil, "id=GET", "deep=1; id=GET"])
            // Another port is another origin.
            _ = origin.fetch(other.url("/a"))
            #expect(other.requests.map { $0["cookie"] } == [nil])
            var find = OriginRequest(url: server.url("/a"), stallLimit: .seconds(5))
            find.method = "PROPFIND"
            for _ in 0..<2 {
                let recorder = Recorder()
                origin.start(find, recorder)
                recorder.finished()
            }
            #expect(server.requests.suffix(2).map { $0["cookie"] } == ["id=GET", "id=PROPFIND"])
        }
    }

    @Test func anOriginCannotMakeAJarGrowWithoutEnd() throws {
        let server = try ScriptedServer { request in
            let lines = (0..<40).map {
                ("Set-Cookie", "c\(request.number)x\($0)=\(String(repeating: "v", count: 3000))")
            }
            return ServerStep.answer(200, lines, body: "x")
        }
        try withTransport(to: server) { origin in
            for _ in 0..<9 { #expect(origin.fetch(server.url("/")).failure == nil) }
            // 360 cookies were set, and 150 are too many: the jar was emptied between.
            let before = server.requests.count
            #expect(origin.fetch(server.url("/")).failure == nil)
            #expect(server.requests.count == before + 1 && server.requests.last?["cookie"]?.contains("c0x0=") != true)
        }
    }

    @Test func manyOriginsTogetherKeepNoMoreCookiesThanOneMountNeeds() throws {
        let server = try ScriptedServer { request in
            ServerStep.answer(200, (0..<40).map { ("Set-Cookie", "c\($0)=v") }, body: "x")
        }
        try withTransport(to: server) { origin in
            func cookie(_ number: Int) -> String? {
                #expect(origin.fetch(server.url("/", host: "h\(number).localhost")).failure == nil)
                return server.requests.last?["cookie"]
            }
            for number in 0..<80 { #expect(cookie(number) == nil) }
            // 3,200 cookies were set, and 3,000 are too many: those of the first origins went.
            #expect(cookie(0) == nil && cookie(79) != nil && cookie(40) != nil)
        }
    }

    @Test func theSumOfCookiesIsThatOfTheJarsThatAreThere() throws {
        let sum = CookieSum()
        let line = "h\tTRUE\t/\tFALSE\t0\tid\t1"
        let first = try #require(CookieJar([line], sum))
        do {
            let second = try #require(CookieJar([line, line.replacing("id", with: "other")], sum))
            #expect(sum.count == 3)
            guard let easy = EasyHandle() else { throw Unexpected(nil) }
            second.attach(to: easy)
            #expect(!second.isTooFull(afterSetting: 5, by: easy.pointer) && sum.count == 8)
            // Lines may have set again what was there.
            second.recount()
            #expect(second.count == 2 && sum.count == 3)
        }
        #expect(first.count == 1 && sum.count == 1)
    }

    @Test func aDoorThatDemandsACertificateGetsIt() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        let door = try SecureDoor(before: server, demandsCertificate: true)
        defer { door.stop() }
        for shows in [false, true] {
            try withTransport(to: ScriptedServer { _ in [] }) {
                $0.certificateAuthorities = door.certificate
                if shows { $0.clientCertificate = ClientCertificate(door.clientCertificate) }
            } _: { origin in
                #expect((origin.fetch(door.url("/")).failure == nil) == shows)
            }
        }
        server.stop()
    }
}
