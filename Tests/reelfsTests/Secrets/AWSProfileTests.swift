import Glibc
import ReelHTTP
import ReelThreads
import TestKit
import Testing

@testable import reelfs

/// Keys and region as AWS's own tools find them.
@Suite struct AWSProfileTests {
    private static let credentials = """
        # mine
        [default]
        aws_access_key_id = AKIDDEFAULT
        aws_secret_access_key=secret
        s3 =
          aws_access_key_id = nested
        [ work ]
        aws_access_key_id = AKIDWORK
        aws_secret_access_key = secret
        aws_session_token = token
        """
    private static let config = """
        [default]
        region = eu-west-1
        [profile work]
        region=eu-south-2
        [profile inline]
        aws_access_key_id = AKIDINLINE
        aws_secret_access_key = secret
        [profile login]
        sso_session = company
        """

    private func load(
        _ environment: [String: String], mode: mode_t = 0o600, needsKey: Bool = true
    ) throws -> AWSProfile {
        try withTemporaryDirectory { root in
            mkdir(root + "/.aws", 0o700)
            defer { rmdir(root + "/.aws") }
            for (name, text) in [("credentials", Self.credentials), ("config", Self.config)] {
                let descriptor = open("\(root)/.aws/\(name)", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
                writeAll(descriptor, Array(text.utf8))
                fchmod(descriptor, mode)
                close(descriptor)
            }
            defer { for name in ["credentials", "config"] { unlink("\(root)/.aws/\(name)") } }
            return try AWSProfile({ environment[$0] }, home: root, needsKey: needsKey)
        }
    }

    @Test(
        arguments: [
            ([:], "AKIDDEFAULT", "eu-west-1"), (["AWS_PROFILE": "work"], "AKIDWORK", "eu-south-2"),
            (["AWS_PROFILE": "inline"], "AKIDINLINE", nil), (["AWS_PROFILE": "none"], nil, nil),
            (["AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "x"], "AKIDENV", "x"),
            (["AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_DEFAULT_REGION": "x"], "AKIDDEFAULT", "x"),
            (["AWS_CONFIG_FILE": "/etc/hostname", "AWS_SHARED_CREDENTIALS_FILE": "/etc/hostname"], nil, nil),
        ] as [([String: String], String?, String?)])
    func keysAreFoundInTheOrderOfAmazonsTools(_ environment: [String: String], _ key: String?, _ region: String?) throws
    {
        let profile = try load(environment)
        #expect(profile.key?.id == key && profile.region == region)
    }

    @Test func aProfileThatGetsItsKeysElsewhereSaysSo() throws {
        #expect(throws: Failure.self) { try load(["AWS_PROFILE": "login"]) }
        #expect(try load(["AWS_PROFILE": "login"], needsKey: false).key == nil)
    }

    @Test func keysThatOthersCanReadAreRefused() throws {
        #expect(throws: Failure.self) { try load([:], mode: 0o644) }
        #expect(throws: Failure.self) { try load(["AWS_PROFILE": "inline"], mode: 0o644) }
        #expect(try load([:], mode: 0o644, needsKey: false).region == "eu-west-1")
    }

    @Test func withoutAHomeThereIsNothing() throws {
        let profile = try AWSProfile({ _ in nil }, home: nil, needsKey: true)
        #expect(profile.key == nil && profile.region == nil)
    }

    @Test("Keys of a session are read from their file again, and stay where it has none for a moment")
    func again() throws {
        try withTemporaryDirectory { root in
            let path = root + "/keys"
            defer { unlink(path) }
            func write(_ text: String) {
                let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
                writeAll(descriptor, Array(text.utf8))
                close(descriptor)
            }
            var options = try MountOptions([])
            options.credentialsFile = path
            let first = SigningKey(id: "first", secret: "s", token: "t")
            let read = S3Access.source(options, first: first)
            func key() -> SigningKey? {
                let answer = Monitor<SigningKey??>(nil)
                read { key in answer.withLock { $0 = .some(key) } }
                return answer.wait(atMost: .seconds(10)) { $0 } ?? nil
            }
            write("username=second\npassword=s\ntoken=u\n")
            #expect(key() == SigningKey(id: "second", secret: "s", token: "u"))
            write("username=second\n")
            #expect(key() == first)
            unlink(path)
            #expect(key() == first)
        }
    }
}
