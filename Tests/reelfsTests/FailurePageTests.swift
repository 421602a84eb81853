import Glibc
import ReelCore
import ReelFilesystem
import ReelFuse
import TestKit
import Testing

@testable import ReelVolume

/// The page Errors shows the table of failures as the code has it.
extension PageTests {
    /// The cells of each row but the last, which names tests; by what stands before the colon of the first one.
    private static let rows = {
        let table = tables(in: text(of: "Errors")).first { $0[0][0].contains("`OriginFailure`") } ?? []
        let rows = table.dropFirst(2).map { (String($0[0].prefix { $0 != ":" }), Array($0.dropFirst().dropLast())) }
        return Dictionary(rows) { one, _ in one }
    }()

    private static let failures: [String: OriginFailure] = [
        "`unreachable`": .unreachable("x"), "`away`": .away(.unreachable), "`away`, `--only-cached`": .away(.offline),
        "`away`, silent": .away(.silent), "`interrupted`": .interrupted("x"), "`timedOut`": .timedOut,
        "`wrongAnswer`": .wrongAnswer("x"), "`unresolved`": .unresolved, "`noLogin`": .noLogin,
        "`untrusted`": .untrusted("x"),
        "`hostKey`": .hostKey("x"), "`changed`": .changed, "`cancelled`": .cancelled,
    ]

    @Test("The page of errors has each other failure as the code has it", arguments: failures.keys.sorted())
    func failure(name: String) {
        #expect(Self.rows[name] == Self.cells(of: Self.failures[name]!))
    }

    @Test("The page of errors has each status as the code has it")
    func statuses() {
        let rows = Self.rows.filter { $0.key.hasPrefix("`status`") }
        var keys: [String: String] = [:]
        for key in rows.keys {
            for word in key.dropFirst("`status`".count).split(separator: ",") {
                keys[String(word.drop { $0 == " " })] = key
            }
        }
        func key(_ status: Int) -> String? {
            keys["\(status)"] ?? (status >= 500 ? keys["from 500"] : nil) ?? keys["any other"]
        }
        let wrong = (100...999).filter { status in
            key(status).flatMap { rows[$0] } != Self.cells(of: .status(status, retryAfter: nil))
        }
        #expect(wrong == [])
        #expect(Set((100...999).map { key($0) }).count == rows.count)
    }

    @Test("The page of errors has each case of a failure, and no other")
    func cases() {
        let source = contents(of: repository + "/Sources/ReelCore/HTTP/OriginFailure.swift")
        let declared = source.prefix(upTo: source.firstRange(of: "\n}\n")!.lowerBound).matches(of: #/\n    case (\w+)/#)
        let shown = Self.rows.keys.map { $0.dropFirst().prefix { $0 != "`" } }
        #expect(Set(shown) == Set(declared.map { $0.1 }))
        #expect(Set(Self.rows.keys.filter { !$0.hasPrefix("`status`") }) == Set(Self.failures.keys))
    }

    private static func cells(of failure: OriginFailure) -> [String] {
        let meaning = failure.meaning
        let retries = (1...20).prefix { RetryPolicy.pause(after: failure, attempt: $0, random: 0) != nil }.count
        let elsewhere =
            switch meaning.elsewhere {
            case .nowhere: "no"
            case .mirrors: "a mirror"
            case .anywhere: "yes"
            }
        let error = VolumeError(failure).errno
        let names = [
            EACCES: "EACCES", EIO: "EIO", ENETUNREACH: "ENETUNREACH", ESTALE: "ESTALE", ETIMEDOUT: "ETIMEDOUT",
        ]
        let words = [0: "no", 2: "twice", 6: "six times"]
        func word(_ isSo: Bool) -> String { isSo ? "yes" : "no" }
        return [
            words[retries] ?? "\(retries)", elsewhere, word(meaning.isUnwell), word(meaning.isContradiction),
            names[error] ?? "\(error)",
        ]
    }
}
