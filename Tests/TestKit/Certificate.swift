/// Makes a certificate that signs itself, and its key (openssl-req(1)).
/// - Parameters:
///   - certificate, key: the paths of PEM files to write.
///   - names: as of subjectAltName: `DNS:localhost,IP:127.0.0.1`.
package func makeCertificate(_ certificate: String, key: String, names: String) throws {
    let made = try ChildProcess.run([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=" + names, "-keyout", key, "-out", certificate,
    ])
    guard made.status == 0 else { throw ChildError(words: ["openssl"], reason: made.errors) }
}
