import CCrypto

/// The paths of a certificate and its key (PEM). libcurl reads them for each connection, so that renewed ones need no
/// new mount.
package struct ClientCertificate: Sendable {
    package var certificate: String
    /// nil: the certificate's file holds the key as well.
    package var key: String?
    /// nil: the key is not encrypted.
    package var passphrase: String?

    package init(certificate: String, key: String?, passphrase: String?) {
        (self.certificate, self.key, self.passphrase) = (certificate, key, passphrase)
    }
}

extension ClientCertificate {
    /// Why no server could take it.
    package enum Flaw: Hashable, Sendable {
        /// The key is damaged, or its passphrase is another one.
        case unreadableKey
        /// The key is of another certificate.
        case otherKey
    }

    /// nil if the key opens, and is that of the certificate; also if the certificate cannot be read here.
    package var flaw: Flaw? {
        func read<Value>(_ path: String, _ body: (OpaquePointer) -> Value?) -> Value? {
            guard let file = BIO_new_file(path, "r") else { return nil }
            defer { BIO_free(file) }
            return body(file)
        }
        // What could not be read stays in the thread's queue of errors, which libcurl reports from.
        defer { ERR_clear_error() }
        guard let certificate = read(certificate, { PEM_read_bio_X509($0, nil, nil, nil) }) else { return nil }
        defer { X509_free(certificate) }
        let found = read(key ?? self.certificate) { file in
            // Without a passphrase it would ask on the terminal.
            var word = (passphrase ?? "").utf8CString.map { $0 }
            return word.withUnsafeMutableBytes { PEM_read_bio_PrivateKey(file, nil, nil, $0.baseAddress) }
        }
        guard let found else { return .unreadableKey }
        defer { EVP_PKEY_free(found) }
        return X509_check_private_key(certificate, found) == 1 ? nil : .otherKey
    }
}
