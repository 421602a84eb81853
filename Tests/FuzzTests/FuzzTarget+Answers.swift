import ReelCore

@testable import ReelHTTP

extension FuzzTarget {
    /// Heads of answers, lines with their ends.
    static let answers = [
        FuzzTarget("answer") { bytes in
            var collector = HeaderCollector()
            for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
                let event = (line + [0x0A]).withUnsafeBytes { collector.take($0) }
                if case .refused = event { break }
            }
            try require(collector.headers.count <= HeaderCollector.lineLimit, "\(collector.headers.count) headers")
            let url = ResourceURL("http://host/film.mkv")!
            let head = ResponseHead(status: collector.status, headers: collector.headers, url: url)
            try check(head)
            for text in collector.headers.map(\.value) { try check(text) }
            let first = ByteRange(0, 1)
            for asked in [nil, first, ByteRange(100, 4096), ByteRange(1 << 40, .max)] {
                for tag in [nil, "\"v\""] {
                    let validator = Validator(entityTag: tag.flatMap { EntityTag($0) }, lastModified: 1_700_000_000)
                    let known = ContentInformation(length: 5000, validator: validator, mediaType: "video/mp4")
                    try check(judge(head, to: url, asked: asked, isConditional: false, known: known), asked)
                }
                try check(judge(head, to: url, asked: asked, isConditional: true, known: nil), asked)
            }
        },
        FuzzTarget("login") { bytes in
            let challenges = LoginChallenge.parse(String(decoding: bytes, as: UTF8.self))
            guard var login = DigestSession.strongest(of: challenges) else { return }
            let pair = ResourceURL.Credentials(user: "a\"b", password: "c")
            login.follow(String(decoding: bytes, as: UTF8.self))
            let line = login.answer("GET", "/x", pair) ?? ""
            try require(isHeaderValue(line), "a line that cannot be sent")
            // The origin reads its own words again.
            let read = LoginChallenge.parse(line).first?.parameters
            try require(read?["realm"] == login.realm && read?["nonce"] == login.nonce, line)
        },
        FuzzTarget("netrc") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            for host in ["h", "", "machine"] { _ = Netrc.login(for: host, parsing: text) }
        },
    ]

    private static func check(_ verdict: HeadVerdict, _ asked: ByteRange?) throws(FuzzFinding) {
        guard case .range(let information) = verdict else { return }
        // The bytes behind such an answer are written where the range was asked for.
        try require(asked.map { $0.lower < information.length ?? 0 } ?? false, "\(verdict) for \(asked as Any)")
    }

    private static func check(_ head: ResponseHead) throws(FuzzFinding) {
        try require(head.contentLength ?? 0 >= 0, "a length below zero")
        try require(head.retryAfter(now: 1_700_000_000).map { $0 >= .zero } ?? true, "a time before now")
        try require(head.retryAfter(now: 0).map { $0 <= .seconds(86_400) } ?? true, "more than a day")
        try require(head.age ?? 0 >= 0, "an age below zero")
        _ = (head.entityTag, head.mediaType, head.isEncoded, head.isHit)
        if let date = head.lastModified { try requireSame(date) }
    }

    private static func check(_ text: String) throws(FuzzFinding) {
        if let tag = EntityTag(text) { try require(EntityTag(tag.header) == tag, "another tag than \(tag.header)") }
        if let range = ContentRange(text) {
            let upper = range.range?.upper ?? 0
            try require(range.range?.isEmpty != true && upper <= range.total ?? .max, "\(range)")
        }
        if let date = httpDate(text) { try requireSame(date) }
    }

    /// A date that is sent back is the one that came. The leap second of the year 9999 is none that has a text.
    private static func requireSame(_ date: Int64) throws(FuzzFinding) {
        let isLast = date == 253_402_300_800
        try require(isLast || httpDate(httpDateText(date)) == date, "another date than \(date)")
    }
}
