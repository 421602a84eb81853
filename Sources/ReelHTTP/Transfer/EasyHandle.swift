import CCurl

/// Leads curl's callbacks from a handle to the request that it answers. Belongs to the transport's thread.
final class HandleContext {
    /// nil: the handle's body is kept for a request to come (`KeptBody`).
    unowned var transfer: Transfer?
    /// Bytes of the request's body that curl has taken.
    var sent: Int64 = 0
    /// Bytes of the piece that curl hands over next which the handle's requests have taken before.
    var taken = 0
    /// nil if the key of the SSH server is known, or has not come.
    var keyRefusal: HostKeyRefusal?
}

/// One libcurl easy handle with the header list that it borrows; both are freed once, together.
struct EasyHandle: ~Copyable {
    let pointer: UnsafeMutableRawPointer
    let context = HandleContext()
    /// When it began to open a connection, nil if it has not, or it uses an idle one.
    var opened: ContinuousClock.Instant?
    /// The request has left.
    var isAsked = false
    /// The jar that the handle uses, which must live longer.
    var cookies: CookieJar?
    /// The lane that the handle uses alone, which must live longer.
    var lane: SessionLane?
    private var headers: UnsafeMutablePointer<curl_slist>?

    /// nil: no memory.
    init?() {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(headers)
    }

    func set(_ option: CURLoption, _ value: Int) { reel_set_long(pointer, option, value) }
    /// curl copies the text (CURLOPT_URL(3) and others: "does not have to keep the string around").
    func set(_ option: CURLoption, _ value: String?) { reel_set_string(pointer, option, value) }
    func set(_ option: CURLoption, context: UnsafeMutableRawPointer) { reel_set_context(pointer, option, context) }
    func set(_ option: CURLoption, _ callback: reel_data_callback) { reel_set_data_callback(pointer, option, callback) }
    func set(_ option: CURLoption, _ callback: curl_debug_callback) {
        reel_set_debug_callback(pointer, option, callback)
    }
    func set(beforeRequest callback: reel_request_callback, context: UnsafeMutableRawPointer) {
        reel_set_request_callback(pointer, callback, context)
    }
    func set(whetherToGoOn callback: curl_xferinfo_callback) {
        reel_set_progress_callback(pointer, callback, Unmanaged.passUnretained(context).toOpaque())
    }
    func set(_ option: CURLoption, _ callback: reel_socket_callback) {
        reel_set_socket_callback(pointer, option, callback)
    }

    /// - Parameter lines: `Name: value`; an empty value is written `Name;` (CURLOPT_HTTPHEADER(3)).
    mutating func set(headers lines: [String]) {
        for line in lines {
            guard let longer = curl_slist_append(headers, line) else { break }
            headers = longer
        }
        reel_set_list(pointer, CURLOPT_HTTPHEADER, headers)
    }
}
