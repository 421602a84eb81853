import CCurl
import Glibc
import ReelCore

/// Requests to file servers (FTP, SFTP), made to look like those to web servers: a range gets a head with 206 and
/// `Content-Range`, the whole file one with 200, a date is `Last-Modified`.
extension Transfer {
    var isOfFileServer: Bool { route.place.fileProtocol != nil }

    /// Whether its path names a folder, as far as it says.
    private var asksFolder: Bool { route.place.path.hasSuffix("/") }

    /// Whether its body outlives it: see `KeptBody`.
    var keepsBody: Bool {
        route.place.fileProtocol == .ftp && request.range != nil && answer.file.facts?.length != nil
            && !answer.file.asksHead
    }

    /// Where its body goes on behind it, nil if it has none to go on with.
    var rest: Int64? {
        guard keepsBody, let range = request.range, answer.isAccepted else { return nil }
        return range.lower + answer.received
    }

    /// Whether its body will stand at the begin of the other request, and is on its way there.
    func leads(to other: Transfer) -> Bool {
        guard stage == .running, keepsBody || !answer.isAccepted, route.place.fileProtocol == .ftp,
            !answer.file.asksHead, !answer.file.isOver, let mine = request.range, let its = other.request.range,
            self !== other
        else { return false }
        return mine.upper == its.lower && request.url == other.request.url
            && request.url.credentials == other.request.url.credentials
    }

    /// Whether it can go on with the body of another request.
    var takesBody: Bool {
        route.place.fileProtocol == .ftp && request.range != nil && !request.isHeadEnough && probe == nil
    }

    // MARK: Options

    func setFileOptions(of easy: inout EasyHandle, _ configuration: TransportConfiguration, avoidsIdle: Bool) {
        let place = route.place
        let isFTP = place.fileProtocol == .ftp
        let known = home.fileServer.facts(of: place)
        // SFTP tells a range's length alone.
        let needsHead = !isFTP && request.range != nil && known == nil
        answer.file.begin(asksHead: request.isHeadEnough || probe != nil || needsHead, isFTP ? nil : known)
        // A probe logs in, and no more.
        let text = probe == nil ? place.text : place.origin + "/"
        let isExplicit = place.scheme == "ftpes"
        easy.set(CURLOPT_URL, isExplicit ? "ftp" + text.dropFirst(place.scheme.utf8.count) : text)
        // The commands are for the server: a proxy only carries the bytes.
        easy.set(CURLOPT_HTTPPROXYTUNNEL, 1)
        easy.set(CURLOPT_FILETIME, 1)
        if answer.file.asksHead { easy.set(CURLOPT_NOBODY, 1) }
        addFileLogin(to: easy)
        if isFTP {
            // A server would else have the client connect anywhere.
            easy.set(CURLOPT_FTP_SKIP_PASV_IP, 1)
            // Servers take the name of a folder in LIST for options and patterns, and not in CWD.
            easy.set(CURLOPT_FTP_FILEMETHOD, asksFolder ? reel_ftp_single_cwd : reel_ftp_no_cwd)
            if isExplicit || place.scheme == "ftps" { easy.set(CURLOPT_USE_SSL, reel_require_tls) }
            easy.lane = host.fileServer.freeLane(isNew: avoidsIdle || probe != nil)
            easy.lane?.attach(to: easy)
            if !request.isReading { easy.set(CURLOPT_CUSTOMREQUEST, request.method) }
            // To the end of the file.
            if let range = request.range, range.lower > 0 { easy.set(CURLOPT_RANGE, "\(range.lower)-") }
        } else {
            configuration.ssh.set(easy)
            if request.url.credentials == nil, let user = configuration.ssh.user {
                easy.set(CURLOPT_USERNAME, user)
            }
            reel_set_key_callback(easy.pointer, judgeHostKey)
            easy.set(CURLOPT_SSH_KEYDATA, context: Unmanaged.passUnretained(easy.context).toOpaque())
            if let range = request.range, !answer.file.asksHead {
                easy.set(CURLOPT_RANGE, "\(range.lower)-\(min(range.upper, known?.length ?? .max) - 1)")
            }
        }
    }

    // MARK: The answer

    /// Takes a line of the control connection. - Returns: whether curl shall go on.
    func takeReply(_ line: UnsafeRawBufferPointer) -> Bool {
        answer.file.take(reply: line)
        if probe == nil { loop.watch?.answered(home, nil) }
        // The length, of a file that has become shorter: a server that has no byte to send confuses curl, which then
        // uses the connection again all the same. A date, which has the same code, is a larger number than any offset.
        if let range = request.range, range.lower > 0, line.starts(with: "213 ".utf8),
            let number = decimal(trimmedBytes(answer.file.reply[4...])), number <= range.lower
        {
            fail(.status(416, retryAfter: nil))
            return false
        }
        return true
    }

    /// Whether all bytes of the body are here: what the control connection says afterwards takes none of them away.
    var hasWholeBody: Bool {
        guard isOfFileServer, answer.isAccepted, !answer.file.asksHead else { return false }
        return answer.isWhole || request.range == nil && answer.received == answer.file.facts?.length
    }

    /// Makes the head of the answer, as far as it is known, and shows it to the receiver.
    /// - Returns: false where it is refused; the verdict says why.
    func beginFile() -> Bool {
        let told = FileFacts(
            length: reel_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T).asLength,
            modified: reel_get_offset(handle, CURLINFO_FILETIME_T).asLength)
        let lower = request.range?.lower ?? 0
        var facts = answer.file.facts ?? told
        var range = request.range
        // FTP reports the length of the body, which begins at the offset.
        let before = answer.file.facts == nil && !answer.file.asksHead && route.place.fileProtocol == .ftp ? lower : 0
        guard (facts.length ?? 0) <= BlockSize.longestFile - before else {
            fail(isTooLong)
            return false
        }
        facts.length = facts.length.map { before + $0 }
        if let length = facts.length, let asked = range {
            guard asked.lower < length else {
                fail(.status(416, retryAfter: nil))
                return false
            }
            range = ByteRange(asked.lower, min(asked.upper, length))
        }
        if route.place.fileProtocol == .sftp, let range, !answer.file.asksHead,
            told.modified != facts.modified || told.length != range.count
        {
            // Another version: its length is asked for again.
            home.fileServer.forget(route.place)
            answer.verdict = route.mayRepeat ? .askOriginal : .failed(.changed)
            return false
        }
        answer.file.learn(facts)
        var head = ResponseHead(status: 200, headers: [], url: route.place)
        if let date = facts.modified { head.headers.append(("last-modified", httpDateText(date))) }
        if let range, let length = facts.length {
            head.status = 206
            head.headers.append(("content-range", "bytes \(range.lower)-\(range.upper - 1)/\(length)"))
        } else if lower > 0 {
            fail(.wrongAnswer("\(host.name): the server tells no length, so that no part of the file can be read"))
            return false
        } else if let length = facts.length {
            head.headers.append(("content-length", "\(length)"))
        }
        return show(head, asked: range)
    }

    private func show(_ head: ResponseHead, asked range: ByteRange?) -> Bool {
        progressed()
        if probe == nil { loop.watch?.answered(home, request) }
        if let failure = receiver.head(head) {
            fail(failure)
            return false
        }
        answer.accept(head, asked: range)
        return true
    }

    /// The verdict on curl's result where no byte has come, nil if the answer is whole.
    func verdictOnFile(_ result: CURLcode) -> Verdict? {
        if result == CURLE_OK || isEmptyFile(result) {
            return answer.file.asksHead ? verdictOnHead() : beginFile() ? nil : answer.verdict
        }
        // A body without a byte, on a connection that was in use before: curl takes it for one that has died. It then
        // asks again on a new one, and 8.13 and later fail to (`multi_follow` knows HTTP alone).
        if result == CURLE_TOO_MANY_REDIRECTS, route.mayRepeat {
            needsConnection = true
            return .askOriginal
        }
        // The server has ended the body meanwhile.
        if answer.file.isTakenOver, route.mayRepeat { return .askOriginal }
        let errno = reel_get_long(handle, CURLINFO_OS_ERRNO)
        let failure = OriginFailure(
            file: result, code: reel_get_long(handle, CURLINFO_RESPONSE_CODE), reply: answer.file.reply, errno: errno,
            keyRefusal: easy?.context.keyRefusal, method: request.method, at: route.place)
        if case .status(let status, _) = failure, request.accepted.contains(status) {
            return show(ResponseHead(status: status, headers: [], url: route.place), asked: nil) ? nil : answer.verdict
        }
        return .failed(failure)
    }

    /// Whether the server has told that the file is empty, before it said that its body did not come.
    private func isEmptyFile(_ result: CURLcode) -> Bool {
        result == CURLE_PARTIAL_FILE && !answer.file.asksHead && !asksFolder
            && reel_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T) == 0
    }

    private func verdictOnHead() -> Verdict? {
        if request.isHeadEnough { return beginFile() ? nil : answer.verdict }
        if probe != nil { return .failed(.wrongAnswer("\(host.name): no answer")) }
        let length = reel_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T).asLength ?? 0
        let modified = reel_get_offset(handle, CURLINFO_FILETIME_T).asLength
        guard length <= BlockSize.longestFile else { return .failed(isTooLong) }
        if let range = request.range, range.lower >= length { return .failed(.status(416, retryAfter: nil)) }
        home.fileServer.learn(FileFacts(length: length, modified: modified), of: route.place)
        return route.mayRepeat ? .askOriginal : .failed(.changed)
    }

    private var isTooLong: OriginFailure { .wrongAnswer("\(host.name): a file of more than 16 TiB") }

    // MARK: The body

    /// The receiver wants no more of a body that goes on: the loop ends the request, and keeps the body.
    /// - Returns: for curl: the bytes are taken.
    func endEarly(before bytes: UnsafeRawBufferPointer, _ taken: Int = 0) -> Int {
        answer.file.putBack(Array(bytes))
        endEarly()
        return taken + bytes.count
    }

    /// The loop ends the request.
    func endEarly() {
        answer.file.end()
        loop.endedEarly.append(self)
    }

    /// Gives the receiver what an earlier request has left of its body. - Returns: whether curl shall go on.
    func deliverSurplus() -> Bool {
        while let piece = answer.file.takePiece() {
            let taken = piece.withUnsafeBytes { takeBody($0) }
            if taken == Int(CURL_WRITEFUNC_PAUSE) {
                answer.file.putBack(piece)
                return false
            }
            if taken == 0 { endEarly() }
        }
        return !answer.file.isOver
    }

    /// Takes the body out of the request, which is over.
    func takeKeptBody() -> KeptBody? {
        guard let position = rest, let facts = answer.file.facts else { return nil }
        let gathered = gathered.map { Array($0.remaining) } ?? []
        let surplus = gathered + answer.file.surplus
        if handle == nil, surplus.isEmpty { return nil }
        easy?.context.transfer = nil
        return KeptBody(easy.take(), request.url, at: position - Int64(gathered.count), facts, surplus)
    }
}

extension curl_off_t {
    /// nil: curl does not know.
    fileprivate var asLength: Int64? { self < 0 ? nil : Int64(self) }
}
