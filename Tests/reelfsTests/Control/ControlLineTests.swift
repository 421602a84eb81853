import ReelCore
import ReelVolume
import Testing

@testable import reelfs

/// What stands on the control socket, byte for byte: a command and a daemon may be of two versions of the program.
@Suite("Lines of the control socket")
struct ControlLineTests {
    private static let handover = Handover(
        program: "1.0", source: "http://h/", mountpoint: "/m", device: "0:9", user: 1, group: 2, umask: 18,
        options: [["refresh", "1m"], ["warm"]])
    private static let rate = RateSchedule("08:00,2M 23:00,off")!

    static let requests: [(ControlRequest, String)] = [
        (.status, #"{"command":"status","version":1}"#),
        (.list, #"{"command":"list","version":1}"#),
        (.pin("a/b"), #"{"command":"pin","path":"a/b","version":1}"#),
        (.unpin("ä\u{1B}"), #"{"command":"unpin","path":"ä\u001b","version":1}"#),
        (.evict(""), #"{"command":"evict","path":"","version":1}"#),
        (.explain("a"), #"{"command":"explain","path":"a","version":1}"#),
        (.refresh("a", isRecursive: true), #"{"command":"refresh","isRecursive":true,"path":"a","version":1}"#),
        (.prune(.to(0)), #"{"bytes":0,"command":"prune","version":1}"#),
        (.prune(.freeing(9)), #"{"command":"prune","freeing":9,"version":1}"#),
        (.verify(repairs: false), #"{"command":"verify","repairs":false,"version":1}"#),
        (.verify("a", repairs: true), #"{"command":"verify","path":"a","repairs":true,"version":1}"#),
        (
            .prefetch(PrefetchRequest(paths: ["a", ""])),
            #"{"command":"prefetch","isBackground":false,"paths":["a",""],"pins":false,"version":1}"#
        ),
        (
            .prefetch(PrefetchRequest(paths: ["a"], pins: true, rate: rate, isBackground: true)),
            #"{"command":"prefetch","isBackground":true,"paths":["a"],"pins":true,"schedule":"08:00,2M 23:00,off","#
                + #""version":1}"#
        ),
        (
            .prefetch(PrefetchRequest(paths: ["a"], patience: .seconds(60))),
            #"{"command":"prefetch","isBackground":false,"paths":["a"],"patience":60,"pins":false,"version":1}"#
        ),
        (
            .prefetch(PrefetchRequest(paths: ["a"], patience: nil)),
            #"{"command":"prefetch","isBackground":false,"paths":["a"],"patience":0,"pins":false,"version":1}"#
        ),
        (.cancelPrefetch("a"), #"{"command":"cancel-prefetch","path":"a","version":1}"#),
        (.offline(true), #"{"command":"offline","isOffline":true,"version":1}"#),
        (.offline(false, device: "0:9"), #"{"command":"offline","device":"0:9","isOffline":false,"version":1}"#),
        (.limitRate(rate), #"{"command":"limit-rate","schedule":"08:00,2M 23:00,off","version":1}"#),
        (
            .attach(handover),
            #"{"command":"attach","handover":{"device":"0:9","group":2,"mountpoint":"/m","options":[["refresh","1m"],"#
                + #"["warm"]],"program":"1.0","source":"http://h/","umask":18,"user":1},"version":1}"#
        ),
        (.detach("0:9"), #"{"command":"detach","device":"0:9","version":1}"#),
        (.awaitUnmount("0:9"), #"{"command":"await-unmount","device":"0:9","version":1}"#),
        (.describe, #"{"command":"describe","version":1}"#),
        (.leave(), #"{"command":"leave","format":1,"version":1}"#),
    ]

    @Test("Each request has its line, and each line its request", arguments: requests)
    func request(request: ControlRequest, line: String) throws {
        #expect(text(request) == line)
        #expect(text(try ControlRequest(line: line.utf8)) == line)
    }

    @Test("The table has each command")
    func commands() {
        for command in ControlRequest.Command.allCases {
            #expect(Self.requests.contains { $1.contains(#""command":"\#(command.rawValue)""#) }, "\(command)")
        }
    }

    @Test(
        "A line of another version is read where it has what the request needs",
        arguments: [
            (#"{"command":"verify","version":1}"#, ControlRequest.verify(repairs: false)),
            (#"{"command":"refresh","path":"a","version":1}"#, .refresh("a", isRecursive: false)),
            (
                #"{"command":"prefetch","path":"a","paths":["a"],"isBackground":true,"version":1}"#,
                .prefetch(PrefetchRequest(paths: ["a"], isBackground: true))
            ),
            (#"{"command":"offline","path":"a","isOffline":true,"version":1}"#, .offline(true)),
            (#"{"command":"prune","bytes":1,"freeing":2,"version":1}"#, .prune(.freeing(2))),
            (#"{"command":"leave","version":1}"#, .leave(format: nil)),
            (#"{"command":"status","later":{"a":[1]},"version":1}"#, .status),
            (#"{"command":"offline","device":null,"isOffline":true,"version":1}"#, .offline(true)),
        ])
    func others(line: String, request: ControlRequest) throws {
        #expect(text(try ControlRequest(line: line.utf8)) == text(request))
    }

    private static let lacksPath = "the request lacks a path, or a number of bytes that is not negative"
    private static let noRequest = "the line is not a request"
    private static let noRate = "the request has no rate that can be read"

    @Test(
        "A line that is no request, or lacks something, is refused with a sentence",
        arguments: [
            ("", noRequest), ("hello", noRequest), ("{}", noRequest), ("[]", noRequest), ("null", noRequest),
            (#"{"command":"status"}"#, noRequest), (#"{"version":1}"#, noRequest),
            (#"{"version":1,"command":"pin","path":1}"#, noRequest),
            (#"{"version":1,"command":"pin","path":"\ud800"}"#, noRequest),
            (#"{"version":1,"command":"prune","bytes":9223372036854775808}"#, noRequest),
            (#"{"version":1,"command":"prune","bytes":1e400}"#, noRequest),
            (#"{"version":1,"command":"attach","handover":{"source":"http://h/"}}"#, noRequest),
            (String(repeating: "[", count: 20_000), noRequest), (String(repeating: #"{"a":"#, count: 4000), noRequest),
            (#"{"version":1,"command":"pin"}"#, lacksPath), (#"{"version":1,"command":"pin","path":null}"#, lacksPath),
            (#"{"version":1,"command":"unpin"}"#, lacksPath), (#"{"version":1,"command":"evict"}"#, lacksPath),
            (#"{"version":1,"command":"explain"}"#, lacksPath), (#"{"version":1,"command":"refresh"}"#, lacksPath),
            (#"{"version":1,"command":"cancel-prefetch"}"#, lacksPath),
            (#"{"version":1,"command":"prune"}"#, lacksPath),
            (#"{"version":1,"command":"prune","bytes":-1}"#, lacksPath),
            (#"{"version":1,"command":"prune","freeing":\#(Int64.min)}"#, lacksPath),
            (#"{"version":1,"command":"prefetch"}"#, "the request lacks paths"),
            (#"{"version":1,"command":"prefetch","paths":[]}"#, "the request lacks paths"),
            (#"{"version":1,"command":"prefetch","paths":["a"],"schedule":"-1"}"#, noRate),
            (#"{"version":1,"command":"limit-rate","schedule":"2X"}"#, noRate),
            (#"{"version":1,"command":"limit-rate"}"#, noRate),
            (#"{"version":1,"command":"offline"}"#, "the request does not tell whether to be offline"),
            (#"{"version":1,"command":"attach"}"#, "the request lacks the mount"),
            (#"{"version":1,"command":"detach"}"#, "the request lacks the mount"),
            (#"{"version":1,"command":"await-unmount"}"#, "the request lacks the mount"),
            (
                #"{"version":1,"command":"refresh","path":"\#(String(repeating: "a/", count: 30_000))"}"#,
                "the path is longer than 4095 bytes"
            ),
            (
                #"{"version":1,"command":"prefetch","paths":["a","\#(String(repeating: "a", count: 4096))"]}"#,
                "the path is longer than 4095 bytes"
            ),
        ])
    func refusals(line: String, sentence: String) {
        #expect(throws: RequestFailure(status: 400, sentence: sentence)) { try ControlRequest(line: line.utf8) }
    }

    @Test(
        "Another version, or an unknown command, is refused with what is known", arguments: [(1, "dance"), (2, "pin")])
    func unknown(version: Int, command: String) throws {
        let line = #"{"version":\#(version),"command":"\#(command)"}"#
        let failure = try #require(throws: RequestFailure.self) { try ControlRequest(line: line.utf8) }
        #expect(failure.sentence.hasPrefix("this daemon knows only version 1 and status, list, pin, "))
    }

    private static let report =
        #"{"bytes":1,"damagedBlocks":0,"damagedFiles":[],"failedDirectories":[],"files":2,"#
        + #""refetchedBlocks":0,"unlistedDirectories":0}"#
    private static let prefetch =
        #"{"bytes":9,"doneBytes":1,"doneFiles":0,"failedFiles":0,"failures":[],"files":2,"isBackground":false,"#
        + #""number":3,"paths":["a"],"phase":"fetching","pins":true,"rate":0}"#

    private static let inheritance =
        #"{"directories":[],"epoch":0,"files":[],"handshake":[],"isPassthrough":false,"modes":[],"nodes":[]}"#

    static let answers = [
        ("done", #"{"version":1}"#),
        ("failure", #"{"error":"a sentence","version":1}"#),
        ("failure", #"{"error":"x is not listed in the mount","isUnlisted":true,"version":1}"#),
        ("refusal", #"{"refusal":"a sentence","version":1}"#),
        ("status", #"{"mount":{"mountpoint":"/m","pid":1,"source":"http://h/"},"version":1}"#),
        (
            "description",
            #"{"handover":{"group":2,"mountpoint":"/m","options":[],"program":"1.0","source":"http://h/","umask":18,"#
                + #""user":1},"version":1}"#
        ),
        (
            "left",
            #"{"left":{"directory":"d","group":2,"hasWatcher":true,"inheritance":\#(inheritance),"isOnlyCached":false,"#
                + #""mountpoint":"/m","umask":18,"user":1},"more":true,"version":1}"#
        ),
        ("progress", #"{"more":true,"progress":{"done":1,"total":2},"version":1}"#),
        (
            "files",
            #"{"files":[{"cachedBytes":1,"isPinned":true,"openHandles":0,"path":"a","url":"http://h/a"}],"more":true,"#
                + #""version":1}"#
        ),
        ("cache", #"{"cache":{"files":[],"mountpoint":"/m","source":"http://h/","used":1},"version":1}"#),
        ("report", #"{"report":\#(report),"version":1}"#),
        (
            "explanation",
            #"{"explanation":{"cached":1,"openHandles":0,"path":"a","requests":[],"sums":[]},"version":1}"#
        ),
        ("prefetching", #"{"more":true,"prefetch":\#(prefetch),"version":1}"#),
        ("prefetch", #"{"prefetch":\#(prefetch),"version":1}"#),
        ("cancelled", #"{"cancelled":1,"version":1}"#),
        ("other", #"{"more":true,"version":1}"#),
    ]

    @Test("Each answer has its line, and each line its answer", arguments: answers)
    func answer(name: String, line: String) throws {
        let answer = try #require(decodeLine(ControlAnswer.self, line.utf8))
        #expect("\(answer)".prefix { $0 != "(" } == name)
        #expect(text(answer) == line)
        #expect(answer.isLast == !line.contains(#""more":true"#))
    }

    @Test("The table has each member")
    func members() {
        for key in ControlAnswer.Key.allCases {
            #expect(Self.answers.contains { $1.contains(#""\#(key.rawValue)":"#) }, "\(key)")
        }
    }

    /// Without the newline.
    private func text(_ value: some Encodable) -> String {
        String(decoding: encodeLine(value).dropLast(), as: UTF8.self)
    }
}
