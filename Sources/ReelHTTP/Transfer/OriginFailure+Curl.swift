import CCurl
import Glibc
import ReelCore

extension OriginFailure {
    /// The failure that a receiver gets for a transfer that curl gave up.
    ///
    /// The text is curl's own sentence for the code (libcurl-errors(3)) and the system's for the errno, never
    /// CURLOPT_ERRORBUFFER, which may quote the URL or the origin's bytes.
    ///
    /// - Parameters:
    ///   - hasHead: the final answer's head had come whole.
    ///   - errno: CURLINFO_OS_ERRNO, 0 where there is none.
    init(_ code: CURLcode, hasHead: Bool, errno: Int, at place: ResourceURL) {
        let system = errno == 0 ? "" : ", " + String(cString: strerror(Int32(errno)))
        let text = "\(place.origin): \(String(cString: curl_easy_strerror(code)))\(system)"
        switch code {
        case CURLE_OPERATION_TIMEDOUT: self = .timedOut
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_PROXY,
            CURLE_INTERFACE_FAILED:
            self = .unreachable(text)
        case CURLE_SSL_CONNECT_ERROR where [Int(ECONNRESET), Int(EPIPE)].contains(errno): self = .interrupted(text)
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH,
            CURLE_SSL_INVALIDCERTSTATUS:
            self = .untrusted("the origin's certificate is not trusted (\(text))")
        case CURLE_SSL_CERTPROBLEM, CURLE_SSL_CLIENTCERT:
            self = .untrusted("the client certificate, or its key, is of no use (\(text))")
        case CURLE_USE_SSL_FAILED: self = .untrusted("the origin offers no TLS (\(text))")
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CIPHER, CURLE_SSL_CRL_BADFILE:
            self = .untrusted("no TLS connection can be made (\(text))")
        // A single header line over curl's 100 KiB ends as "out of memory" up to 8.5, as "too large" later.
        case CURLE_OUT_OF_MEMORY where !hasHead, reel_too_large where !hasHead:
            self = .wrongAnswer("\(place.origin): a header is too large")
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING,
            CURLE_HTTP_RETURNED_ERROR, CURLE_URL_MALFORMAT, CURLE_FILESIZE_EXCEEDED:
            self = .wrongAnswer(text)
        default: self = .interrupted(text)
        }
    }
}
