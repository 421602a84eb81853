import Glibc
import ReelCore

/// TLS in front of a scripted server, with a fresh certificate for `localhost`: what comes in is handed on unpacked.
///
/// A child process, in Python; its directory goes with it.
package final class SecureDoor: Sendable {
    private let directory: String
    private let process: ChildProcess
    package let port: UInt16

    /// PEM: whoever trusts it trusts this door.
    package var certificate: String { directory + "/cert.pem" }

    /// One certificate and its key, by which a client may show who it is.
    package var clientCertificate: (certificate: String, key: String) {
        (directory + "/client.pem", directory + "/client-key.pem")
    }

    /// The name that each connection asked for, and whether it showed the client's certificate.
    package var connections: [(name: String, isShown: Bool)] {
        process.said.output.split(separator: "\n").dropFirst().map { line in
            let words = line.split(separator: " ")
            return (String(words[0]), words.last == "shown")
        }
    }

    /// - Parameter demandsCertificate: no client gets in without.
    package init(before server: ScriptedServer, demandsCertificate: Bool = false) throws {
        var template = Array("/tmp/reelfs-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw ServerError(errno: errno) }
        let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        self.directory = directory
        do {
            for (name, key) in [("cert.pem", "key.pem"), ("client.pem", "client-key.pem")] {
                try makeCertificate(
                    directory + "/" + name, key: directory + "/" + key,
                    names: "DNS:localhost,DNS:other.localhost")
            }
            let process = try ChildProcess([
                "python3", "-c", Self.program, directory, "\(server.port)", demandsCertificate ? "2" : "1",
            ])
            var port: UInt16?
            eventually {
                port = UInt16(trimmed(process.said.output))
                return port != nil
            }
            guard let port else {
                let errors = process.said.errors
                process.signal(SIGKILL)
                _ = try? process.wait()
                throw ChildError(words: ["python3"], reason: errors)
            }
            self.process = process
            self.port = port
        } catch {
            removeTree(directory)
            throw error
        }
    }

    package func url(_ target: String, host: String = "localhost") -> ResourceURL {
        ResourceURL("https://\(host):\(port)\(target)")!
    }

    /// Whoever made the door calls it.
    package func stop() {
        process.signal(SIGKILL)
        _ = try? process.wait()
        removeTree(directory)
    }

    private static let program = """
        import asyncio, ssl, sys
        directory, inner = sys.argv[1], int(sys.argv[2])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory + "/cert.pem", directory + "/key.pem")
        context.verify_mode = ssl.VerifyMode(int(sys.argv[3]))
        context.load_verify_locations(directory + "/client.pem")
        names = {}

        def note(connection, name, context):
            names[id(connection)] = name

        context.sni_callback = note

        async def pump(reader, writer):
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            finally:
                writer.close()

        async def serve(reader, writer):
            connection = writer.get_extra_info("ssl_object")
            shown = "shown" if connection.getpeercert(binary_form=True) else "none"
            print(names.pop(id(connection), None) or "-", shown, flush=True)
            there, back = await asyncio.open_connection("127.0.0.1", inner)
            await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()

        asyncio.run(main())
        """
}
