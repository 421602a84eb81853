import Glibc
import TestKit
import Testing

/// `reelfs serve` as a child.
final class Serving {
    /// The address as it says on stdout.
    let address: String
    let process: ChildProcess

    var port: UInt16 { UInt16(address.dropLast().split(separator: ":").last ?? "") ?? 0 }
    var files: String { address + "files/" }

    init(_ source: String, cache: String, _ options: [String] = []) throws {
        process = try ChildProcess(
            [program, "serve", source, "--cache-dir", cache, "--prebuffer", "0"] + options,
            environment: ["no_proxy": "127.0.0.1,localhost"])
        let process = process
        guard eventually(within: .seconds(20), { process.said.output.hasSuffix("\n") }) else {
            process.signal(SIGKILL)
            throw ChildError(words: ["serve"], reason: process.said.errors)
        }
        address = String(process.said.output.dropLast())
    }

    /// Ends it as a user does. - Returns: its exit status.
    @discardableResult
    func stop(within limit: Duration = .seconds(10)) throws -> Int32 {
        process.signal(SIGTERM)
        return try process.wait(within: limit).status
    }
}

/// Runs `body` with a server of its own, and ends it.
func withServing(
    _ source: String, cache: String, _ options: [String] = [], _ body: (Serving) throws -> Void
) throws {
    let serving = try Serving(source, cache: cache, options)
    defer {
        do { #expect(try serving.stop() == 0, "\(serving.process.said.errors)") } catch { Issue.record("\(error)") }
    }
    try body(serving)
}

/// An answer in its parts.
struct RawAnswer {
    var status: Int
    /// Names in lower case.
    var headers: [String: String]
    var body: [UInt8]

    /// - Parameter lines: headers beside `Host`.
    init(_ port: UInt16, _ method: String, _ path: String, _ lines: [String] = [], body: String = "") throws {
        let connection = try RawConnection(port)
        var head = ["\(method) \(path) HTTP/1.1", "Host: localhost", "Connection: close"] + lines
        if !body.isEmpty { head.append("Content-Length: \(body.utf8.count)") }
        connection.send(head.joined(separator: "\r\n") + "\r\n\r\n" + body)
        let bytes = connection.receive()
        let end = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8)))
        let fields = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
        status = Int(try #require(fields.first).split(separator: " ")[1]) ?? 0
        headers = Dictionary(
            fields.dropFirst().map { line in
                let colon = line.firstIndex(of: ":") ?? line.startIndex
                return (line[..<colon].lowercased(), String(line[colon...].dropFirst(2)))
            }, uniquingKeysWith: { $0 + ", " + $1 })
        self.body = Array(bytes[end.upperBound...])
    }
}
