import CCurl
import Glibc
import ReelCore

extension Transfer {
    /// Makes an easy handle that asks `route.place`.
    /// - Parameter avoidsIdle: the request opens a connection of its own, although some may be idle.
    /// - Returns: false where there is no memory for a handle.
    func prepare(_ configuration: TransportConfiguration, avoidsIdle: Bool) -> Bool {
        guard var easy = EasyHandle() else { return false }
        easy.context.transfer = self
        let context = Unmanaged.passUnretained(easy.context).toOpaque()
        easy.set(CURLOPT_PRIVATE, context: context)
        easy.set(CURLOPT_HEADERFUNCTION, receiveHeader)
        easy.set(CURLOPT_HEADERDATA, context: context)
        easy.set(CURLOPT_WRITEFUNCTION, receiveBody)
        easy.set(CURLOPT_WRITEDATA, context: context)
        easy.set(CURLOPT_OPENSOCKETFUNCTION, openSocket)
        easy.set(CURLOPT_OPENSOCKETDATA, context: context)
        easy.set(beforeRequest: checkAddress, context: context)
        // Only this callback sees the bytes that frame a body. It costs a microsecond or two a request.
        easy.set(CURLOPT_DEBUGFUNCTION, receiveRaw)
        easy.set(CURLOPT_DEBUGDATA, context: context)
        easy.set(CURLOPT_VERBOSE, 1)
        setConnectionOptions(of: easy, configuration, avoidsIdle: avoidsIdle)
        if isOfFileServer {
            setFileOptions(of: &easy, configuration, avoidsIdle: avoidsIdle)
        } else {
            setRequestOptions(of: &easy, configuration)
        }
        self.easy = consume easy
        return true
    }

    private func setConnectionOptions(
        of easy: borrowing EasyHandle, _ configuration: TransportConfiguration, avoidsIdle: Bool
    ) {
        if isOfFileServer { reel_allow_files_only(easy.pointer) } else { reel_allow_http_only(easy.pointer) }
        reel_leave_resolver(easy.pointer)
        easy.set(CURLOPT_NOSIGNAL, 1)
        easy.set(CURLOPT_HTTP_VERSION, reel_http_1_1)
        let connectLimit = min(request.connectLimit ?? configuration.connectTimeout, configuration.connectTimeout)
        easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(connectLimit / .milliseconds(1)))
        if request.connectLimit != nil || avoidsIdle || needsConnection { easy.set(CURLOPT_FRESH_CONNECT, 1) }
        easy.set(CURLOPT_TCP_NODELAY, 1)
        easy.set(CURLOPT_TCP_KEEPALIVE, 1)
        // A resolved name may go stale while a mount lives for months; a minute is curl's own default.
        easy.set(CURLOPT_DNS_CACHE_TIMEOUT, 60)
        easy.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        if !configuration.usesProxies { easy.set(CURLOPT_PROXY, "") }
        if let file = configuration.certificateAuthorities {
            easy.set(CURLOPT_CAINFO, file)
            // Else libcurl would go on taking those of the system's directory as well.
            easy.set(CURLOPT_CAPATH, nil)
        }
        // The size in curl's own program. curl allocates it for each request: half a megabyte would come from the
        // system each time, page by page, which takes as long as all the receiving.
        // SFTP asks for as many bytes before it waits: with less it takes a round trip for each few of them.
        easy.set(CURLOPT_BUFFERSIZE, route.place.fileProtocol == .sftp ? 512 << 10 : 100 << 10)
    }

    private func setRequestOptions(of easy: inout EasyHandle, _ configuration: TransportConfiguration) {
        // A URL cannot hold each path and query that S3 has.
        let signed = route.place == route.original ? request.signed?.text : nil
        let target = signed ?? String(route.place.text.dropFirst(route.place.origin.count))
        easy.set(CURLOPT_URL, route.place.origin + target)
        // ResourceURL has removed the dot segments; any others are there on purpose.
        easy.set(CURLOPT_PATH_AS_IS, 1)
        easy.set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1)
        easy.set(CURLOPT_FOLLOWLOCATION, 0)
        easy.set(CURLOPT_HTTP_CONTENT_DECODING, 0)
        easy.set(CURLOPT_USERAGENT, configuration.userAgent)
        if let range = request.range { easy.set(CURLOPT_RANGE, "\(range.lower)-\(range.upper - 1)") }
        easy.set(CURLOPT_ACCEPT_ENCODING, "identity")
        var lines = setMethod(of: easy)
        switch request.condition {
        case nil: break
        case .ifRange(let validator): lines.append("If-Range: " + validator)
        case .ifChanged(let tag, let date):
            if let tag { lines.append("If-None-Match: " + tag) }
            if let date { lines.append("If-Modified-Since: " + date) }
        }
        let disclosure = disclosure
        if disclosure.headers { lines += request.headers.map(headerLine) }
        lines += addLogin(to: easy, disclosure, target)
        if let jar = cookieJar(disclosure) {
            jar.attach(to: easy)
            easy.cookies = jar
        }
        easy.set(headers: lines)
    }

    /// - Returns: header lines.
    private func setMethod(of easy: borrowing EasyHandle) -> [String] {
        if request.method == "HEAD" { easy.set(CURLOPT_NOBODY, 1) }
        if let upload = request.upload {
            // It makes the method PUT. CURLOPT_INFILESIZE(3): a long is enough here.
            easy.set(CURLOPT_UPLOAD, 1)
            easy.set(CURLOPT_INFILESIZE, Int(upload.length))
            easy.set(CURLOPT_READFUNCTION, sendBody)
            easy.set(CURLOPT_READDATA, context: Unmanaged.passUnretained(easy.context).toOpaque())
            // A service that has no use for the body says so before it comes. A short one is sent rather than waited
            // with.
            easy.set(CURLOPT_EXPECT_100_TIMEOUT_MS, upload.length < 64 << 10 ? 1 : 100)
            return []
        }
        guard !request.body.isEmpty else {
            if !request.isReading { easy.set(CURLOPT_CUSTOMREQUEST, request.method) }
            return []
        }
        easy.set(CURLOPT_POSTFIELDSIZE, request.body.count)
        // curl copies as many bytes as CURLOPT_POSTFIELDSIZE says.
        var body = request.body
        body.withUnsafeMutableBytes { easy.set(CURLOPT_COPYPOSTFIELDS, context: $0.baseAddress!) }
        easy.set(CURLOPT_CUSTOMREQUEST, request.method)
        // Without curl's guess of the body's type, and without a round trip in which the origin may refuse it.
        let isTyped = request.headers.contains { asciiLowercased($0.name) == "content-type" }
        return isTyped ? ["Expect:"] : ["Expect:", "Content-Type:"]
    }

    /// Why the request cannot be sent at all, nil if it can. Texts of an origin or a listing could add lines to it.
    static func refusal(of request: OriginRequest) -> OriginFailure? {
        let texts: [String]
        switch request.condition {
        case nil: texts = []
        case .ifRange(let validator): texts = [validator]
        case .ifChanged(let tag, let date): texts = [tag, date].compactMap { $0 }
        }
        guard texts.allSatisfy(isHeaderValue) else { return .wrongAnswer("a validator that cannot be sent") }
        guard isHeaderValue(request.url.text), request.signed.map({ isTarget($0.text) }) ?? true else {
            return .wrongAnswer("a URL that cannot be sent")
        }
        if let range = request.range, range.isEmpty { return .wrongAnswer("an empty range cannot be asked for") }
        guard !request.method.isEmpty, request.method.utf8.allSatisfy({ (0x41...0x5A).contains($0) }),
            (try? TransportConfiguration.check(request.headers)) != nil
        else { return .wrongAnswer("a method or header that cannot be sent") }
        if let pair = request.url.credentials, !isHeaderValue(pair.user) || !isHeaderValue(pair.password) {
            return .wrongAnswer("credentials that cannot be sent")
        }
        return nil
    }
}

/// Whether a text may stand in a request's first line as it is.
private func isTarget(_ text: String) -> Bool {
    text.utf8.first == 0x2F && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }
}

/// A field in curl's form (CURLOPT_HTTPHEADER(3)).
func headerLine(_ field: (name: String, value: String)) -> String {
    field.value.isEmpty ? field.name + ";" : field.name + ": " + field.value
}

/// The context of a callback: the handle's, which lives as long as the handle.
private func transfer(_ context: UnsafeMutableRawPointer?) -> Transfer? {
    context.flatMap { Unmanaged<HandleContext>.fromOpaque($0).takeUnretainedValue().transfer }
}

/// CURLOPT_HEADERFUNCTION(3).
private func receiveHeader(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let transfer = transfer(context) else { return size * count }
    return transfer.takeHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
}

/// CURLOPT_WRITEFUNCTION(3).
private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard size * count > 0 else { return 0 }
    // No request takes the body now.
    guard let transfer = transfer(context) else { return Int(CURL_WRITEFUNC_PAUSE) }
    return transfer.takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
}

/// CURLOPT_READFUNCTION(3).
private func sendBody(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let transfer = transfer(context) else { return Int(CURL_READFUNC_ABORT) }
    return transfer.giveBody(to: UnsafeMutableRawBufferPointer(start: buffer, count: size * count))
}

/// CURLOPT_XFERINFOFUNCTION(3). - Returns: 1 to end the request.
func isOnlyWaiting(
    _ context: UnsafeMutableRawPointer?, _: curl_off_t, _: curl_off_t, _: curl_off_t, _: curl_off_t
) -> Int32 { transfer(context)?.waitsInVain == true ? 1 : 0 }

/// CURLOPT_DEBUGFUNCTION(3). It takes only the lengths of the bytes that it sees, as they may hold secrets.
private func receiveRaw(
    _ easy: UnsafeMutableRawPointer?, _ kind: curl_infotype, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard kind == CURLINFO_DATA_IN || kind == CURLINFO_HEADER_OUT, let transfer = transfer(context) else { return 0 }
    if kind == CURLINFO_DATA_IN { transfer.takeRaw(count) } else { transfer.easy?.isAsked = true }
    return 0
}

/// CURLOPT_OPENSOCKETFUNCTION(3): curl's own call would let programs that this one starts inherit the descriptor.
private func openSocket(
    _ context: UnsafeMutableRawPointer?, _ purpose: curlsocktype, _ address: UnsafeMutablePointer<curl_sockaddr>?
) -> curl_socket_t {
    guard let address, let transfer = transfer(context) else { return CURL_SOCKET_BAD }
    var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    var port = [CChar](repeating: 0, count: 16)
    let code = withUnsafePointer(to: &address.pointee.addr) {
        getnameinfo(
            $0, address.pointee.addrlen, &name, socklen_t(name.count), &port, socklen_t(port.count),
            NI_NUMERICHOST | NI_NUMERICSERV)
    }
    guard code == 0, transfer.mayReach(text(name), Int(text(port)) ?? 0) else {
        return CURL_SOCKET_BAD
    }
    transfer.connects()
    let (family, kind) = (address.pointee.family, address.pointee.socktype)
    let opened = socket(family, kind | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
    if opened >= 0 { transfer.easy?.lane?.opened(opened) }
    return opened
}

/// Up to the end of a C string.
private func text(_ characters: [CChar]) -> String {
    String(decoding: characters.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// CURLOPT_PREREQFUNCTION(3): an idle connection may lead to an address that `openSocket` would refuse this request.
private func checkAddress(
    _ context: UnsafeMutableRawPointer?, _ address: UnsafeMutablePointer<CChar>?,
    _ local: UnsafeMutablePointer<CChar>?, _ port: Int32, _ localPort: Int32
) -> Int32 {
    guard let address, let transfer = transfer(context) else { return CURL_PREREQFUNC_ABORT }
    return transfer.mayReach(String(cString: address), Int(port)) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}
