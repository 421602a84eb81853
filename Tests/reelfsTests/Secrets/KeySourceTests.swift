import Glibc
import ReelCache
import Testing

@testable import reelfs

struct KeySourceTests {
    private let raw = (0..<32).map { UInt8(truncatingIfNeeded: $0 * 37 + 5) }

    private func key(_ bytes: [UInt8]) -> [UInt8]? {
        KeySource.key(bytes).map { key in withExtendedLifetime(key) { Array(key.bytes) } }
    }

    @Test func aKeyIsRawHexadecimalOrBase64() {
        let hexadecimal = "052a4f7499bee3082d52779cc1e60b30557a9fc4e90e33587da2c7ec11365b80"
        let base64 = "BSpPdJm+4wgtUnecweYLMFV6n8TpDjNYfaLH7BE2W4A="
        #expect(key(raw) == raw)
        for text in [hexadecimal, hexadecimal.uppercased(), hexadecimal + "\n", base64, " " + base64 + "\r\n"] {
            #expect(key(Array(text.utf8)) == raw, "\(text)")
        }
        #expect(key(Array(base64.dropLast().utf8)) == raw)
    }

    @Test(arguments: [
        "", "a", String(repeating: "a", count: 31), String(repeating: "a", count: 33),
        String(repeating: "g", count: 64),
        String(repeating: "a", count: 63), String(repeating: "a", count: 66), String(repeating: "=", count: 44),
        String(repeating: "-", count: 43) + "=", String(repeating: "A", count: 41) + "===", "\n\n",
    ])
    func nothingElseIsAKey(_ text: String) { #expect(key(Array(text.utf8)) == nil) }

    @Test func aSourceIsAFileACredentialOrACommand() throws {
        #expect(try KeySource(parsing: "file:/a:b") == .file("/a:b"))
        #expect(try KeySource(parsing: "credential:films") == .credential("films"))
        #expect(
            try KeySource(parsing: "command:pass show films") == .command(#require(Command(parsing: "pass show films")))
        )
        for text in [
            "", "file", "file:", "credential:", "credential:../a", "credential:..", "credential:../\u{301}a",
            "command:", "command:'a", "x:y",
        ] {
            #expect(throws: Failure.self, "\(text)") { try KeySource(parsing: text) }
        }
    }

    @Test func aCommandThatGivesNoKeyIsToldWithoutItsOutput() throws {
        func sentence(_ command: String) -> String {
            do {
                _ = try KeySource(parsing: "command:" + command).key(within: .seconds(5))
                return ""
            } catch {
                return error.sentence
            }
        }
        #expect(
            sentence("printf secretsecret") == "key command printf: a key is 32 bytes, raw, in hexadecimal or in base64"
        )
        #expect(sentence("sh -c 'echo secret >&2; exit 3'") == "key command sh ended with status 3")
        #expect(sentence("head -c 10000 /dev/zero") == "key command head wrote more than a key")
        #expect(sentence("/no/such/program").contains("cannot be run"))
    }
}
