import CCurl
import Glibc
import ReelCore

/// Requests to file servers (FTP, SFTP), made to look like those to web servers: a range gets a head with 206 and
/// `Content-Range`, the whole file one with 200, a date is `Last-Modified`.
extension Transfer {
    var isOfFileServer: Bool { route.place.fileProtocol != nil }

    /// Whether its path names a folder, as far as it says.
    private var asksFolder: Bool { route.place.path.hasSuffix("/") }

    /// Whether it can take no bytes for a while. A probe is over with its byte. libcurl reads a folder over SFTP before
    /// the body begins (`SSH_SFTP_READDIR` in lib/vssh), and ends one that is paused then as if it were whole.
    var canPause: Bool { probe == nil && (route.place.fileProtocol != .sftp || !asksFolder) }

    /// Whether it takes its range out of a body that runs to the end of the file: see `KeptBody`.
    var takesPart: Bool {
        route.place.fileProtocol == .ftp && request.range != nil && !request.isHeadEnough && probe == nil
            && (!answer.isAccepted || answer.file.facts?.length != nil)
    }

    /// Where its body stands, nil if it has none to leave.
    private var position: Int64? {
        guard takesPart, answer.isAccepted, let range = request.range else { return nil }
        return range.lower + answer.received
    }

    /// Whether its body goes on where it stands.
    var goesOn: Bool { position.map { $0 != answer.file.facts?.length } ?? false }

    /// Whether it takes no more of its body: the loop ends it.
    var leavesBody: Bool { answer.isFull && goesOn || answer.verdict != nil && position != nil }

    /// Whether its body is on its way to where the other request begins.
    func leads(to other: Transfer) -> Bool {
        takesPart && stage == .running && request.range?.upper == other.request.range?.lower
            && request.isForSameFile(as: other.request.url)
    }

    // MARK: Options

    func setFileOptions(of easy: inout EasyHandle, _ configuration: TransportConfiguration, avoidsIdle: Bool) {
        let place = route.place
        let isFTP = place.fileProtocol == .ftp
        // Whoever asks for the head wants to know what it is now.
        let known = request.isHeadEnough ? nil : home.fileServer.facts(of: place)
        // With a range SFTP gives only the range's length, not the file's.
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
            easy.lane = host.fileServer.freeLane(isNew: avoidsIdle || needsConnection || probe != nil)
            easy.lane?.attach(to: easy)
            if !request.isReading { easy.set(CURLOPT_CUSTOMREQUEST, request.method) }
            easy.set(whetherToGoOn: isOnlyWaiting)
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

    /// A reply is to come that libcurl does not wait for: until 8.7 it forgets the control connection while the data
    /// connection has no TLS session, which begins after the last command; and libssh keeps bytes that it has read from
    /// the socket.
    var mayMissReply: Bool {
        guard stage == .running else { return false }
        if route.place.fileProtocol == .sftp { return Self.usesLibssh }
        return easy?.lane != nil && !answer.isAccepted && route.place.scheme != "ftp"
    }

    private static let usesLibssh = reel_uses_libssh()
    private static let resumesOldest = reel_resumes_oldest_session()
    /// What a server may take to say that a body has come whole, where curl waits a minute for it, and the loop with it
    /// (`ftp_done` in lib/ftp.c), which asks once a second whether to go on.
    private static let patience = Duration.milliseconds(500)

    /// Whether all is here except the last word.
    var waitsInVain: Bool { hasWholeBody && silence > Self.patience }

    /// Takes a line of the control connection. - Returns: whether curl shall go on.
    func takeReply(_ line: UnsafeRawBufferPointer) -> Bool {
        answer.file.take(reply: line)
        if probe == nil { loop.watch?.answered(home, nil) }
        if line.starts(with: "220 ".utf8), let lane = easy?.lane, route.place.scheme != "ftp", Self.resumesOldest {
            lane.greeted()
            // curl found the connection of the lane dead, and opened another one.
            if lane.isOver, route.mayRepeat {
                needsConnection = true
                answer.verdict = .askOriginal
                return false
            }
        }
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
        host.fileServer.began()
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
        // The server has ended the body that an earlier request had left.
        if takesPart, answer.file.facts != nil, route.mayRepeat { return .askOriginal }
        let errno = reel_get_long(handle, CURLINFO_OS_ERRNO)
        let ssh = loop.configuration.ssh
        let failure = OriginFailure(
            file: result, code: reel_get_long(handle, CURLINFO_RESPONSE_CODE), reply: answer.file.reply, errno: errno,
            keyRefusal: easy?.context.keyRefusal, method: request.method, at: route.place,
            hasBegun: host.fileServer.hasBegun, knownHosts: ssh.hasOtherKnownHosts ? ssh.knownHosts : nil)
        if case .status(let status, _) = failure, request.accepted.contains(status) {
            return show(ResponseHead(status: status, headers: [], url: route.place), asked: nil) ? nil : answer.verdict
        }
        return .failed(failure)
    }

    /// Whether the server has said that the file is empty, before it reported that its body did not come.
    private func isEmptyFile(_ result: CURLcode) -> Bool {
        result == CURLE_PARTIAL_FILE && !answer.file.asksHead && !asksFolder
            && reel_get_offset(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T) == 0
    }

    private func verdictOnHead() -> Verdict? {
        if request.isHeadEnough {
            guard beginFile() else { return answer.verdict }
            if let facts = answer.file.facts, facts.length != nil { home.fileServer.learn(facts, of: route.place) }
            return nil
        }
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

    /// The part of a piece of the body that no request before this one has taken: curl hands over a piece again of
    /// which not all was taken.
    func untaken(of piece: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: piece.dropFirst(easy?.context.taken ?? 0))
    }

    /// Takes a piece except for its last bytes. - Returns: the result of curl's write callback.
    func take(_ piece: UnsafeRawBufferPointer, exceptFor left: Int) -> Int {
        guard let context = easy?.context else { return 0 }
        context.taken = left > 0 ? piece.count - left : max(0, context.taken - piece.count)
        return left > 0 ? Int(CURL_WRITEFUNC_PAUSE) : piece.count
    }

    /// Takes the body out of a request that ends so, nil if it ends with it. One that stands at the end of its file is
    /// kept until curl has read the reply behind it: then its connection is as good as new.
    func takeKeptBody(after verdict: Verdict?) -> KeptBody? {
        switch verdict {
        case .failed(.cancelled): break
        case nil where goesOn: break
        default: return nil
        }
        guard let position, let facts = answer.file.facts, let easy = easy.take() else { return nil }
        return KeptBody(easy, request.url, at: position, facts)
    }
}

extension curl_off_t {
    /// nil: curl does not know.
    fileprivate var asLength: Int64? { self < 0 ? nil : Int64(self) }
}
