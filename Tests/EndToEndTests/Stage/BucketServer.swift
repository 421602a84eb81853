import Glibc
import TestKit
import Testing

/// moto, an S3 service in memory, with a bucket `films` and a user who may read it. It verifies signatures.
final class BucketServer: Sendable {
    let endpoint: String
    /// The environment in which AWS's tools find the user's keys.
    let keys: [String: String]
    private let process: ChildProcess

    /// Cancels the test where the machine lacks moto.
    /// - Parameters:
    ///   - objects: their contents by key.
    ///   - place: an empty directory.
    init(_ objects: [[UInt8]: [UInt8]], place: String) throws {
        guard try pythonServer("moto_server") != nil, let python = try pythonServer("python3") else {
            try Test.cancel("moto is not installed")
        }
        mkdir(place, 0o755)
        var list = ""
        for (index, object) in objects.enumerated() {
            list += object.key.map { String(Int($0) + 256, radix: 16).dropFirst() }.joined() + "\n"
            try writeFile("\(place)/\(index)", object.value)
        }
        try writeFile(place + "/list", list.utf8)
        try writeFile(place + "/serve.py", Self.script.utf8)
        let environment = [
            "HOME": place, "MOTO_S3_DEFAULT_MAX_KEYS": "7", "AWS_ACCESS_KEY_ID": "setup",
            "AWS_SECRET_ACCESS_KEY": "setup", "AWS_DEFAULT_REGION": "us-east-1", "no_proxy": "127.0.0.1",
        ]
        let process = try ChildProcess([python, "serve.py"], environment: environment, directory: place)
        self.process = process
        var words: [Substring] = []
        let isReady = eventually(within: .seconds(60)) {
            words = (contents(place + "/ready") ?? "").split(separator: "\n")
            return words.count == 3 || process.poll() != nil
        }
        guard isReady, words.count == 3 else {
            process.signal(SIGKILL)
            _ = try? process.wait()
            throw ChildError(words: ["moto"], reason: "does not start: \(process.said.errors)")
        }
        endpoint = "http://127.0.0.1:\(words[0])"
        keys = ["AWS_ACCESS_KEY_ID": String(words[1]), "AWS_SECRET_ACCESS_KEY": String(words[2])]
    }

    func stop() {
        process.signal(SIGKILL)
        _ = try? process.wait(within: .seconds(5))
    }

    /// Keys go into the path as they are: a client would tidy up some of them.
    private static let script = """
        import http.client, os, signal
        from urllib.parse import quote
        import boto3, flask
        import moto.iam.access_control
        from moto.server import ThreadedMotoServer

        # moto decodes the query before it looks at its signature.
        checks = moto.iam.access_control.IAMRequestBase
        prepare = checks._create_aws_request
        def prepare_raw(self):
            self._path = flask.request.environ["RAW_URI"]
            return prepare(self)
        checks._create_aws_request = prepare_raw

        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        url = f"http://127.0.0.1:{port}"

        def send(method, target, body=b""):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request(method, target, body)
            answer = connection.getresponse()
            assert answer.status == 200, (method, target, answer.status, answer.read())

        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="films")
        for number, line in enumerate(open("list").read().splitlines()):
            send("PUT", "/films/" + quote(bytes.fromhex(line), safe="/~"), open(str(number), "rb").read())
        iam = boto3.client("iam", endpoint_url=url)
        iam.create_user(UserName="me")
        key = iam.create_access_key(UserName="me")["AccessKey"]
        policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        iam.put_user_policy(UserName="me", PolicyName="all", PolicyDocument=policy)
        send("POST", "/moto-api/reset-auth", b"0")
        with open("ready.new", "w") as file:
            file.write(f"{port}\\n{key['AccessKeyId']}\\n{key['SecretAccessKey']}\\n")
        os.rename("ready.new", "ready")
        signal.pause()
        """
}
