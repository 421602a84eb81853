import CCurl
import ReelCore

/// The cookies of one origin (RFC 6265, as libcurl keeps them). Each scheme, host and port has a jar of its own:
/// libcurl alone would send a host's cookies to all its ports.
///
/// Belongs to the transport's thread.
final class CookieJar {
    private let share: UnsafeMutableRawPointer
    /// It holds cookies of the user's file, which are secrets for the source's origin.
    let isSeeded: Bool
    /// Cookies that it has, at most.
    private(set) var count: Int { didSet { sum.count += count - oldValue } }
    private let sum: CookieSum
    /// When a request last got it.
    private(set) var lastUse = ContinuousClock.now
    /// Set-Cookie lines since the cookies were last counted.
    private var lines = 0

    /// After this many lines the cookies are counted: most lines set again what is there.
    private static let countInterval = 64
    /// The most that libcurl sends at a time; RFC 6265, section 6.1, asks for 50.
    private static let limit = 150

    /// - Parameters:
    ///   - cookies: lines of a Netscape cookie file.
    ///   - sum: of the jars among which it counts.
    init?(_ cookies: [String], _ sum: CookieSum) {
        guard let share = curl_share_init() else { return nil }
        self.share = share
        self.sum = sum
        isSeeded = !cookies.isEmpty
        count = cookies.count
        sum.count += count
        reel_share_add(share, CURL_LOCK_DATA_COOKIE)
        guard !cookies.isEmpty, let easy = EasyHandle() else { return }
        attach(to: easy)
        for line in cookies { easy.set(CURLOPT_COOKIELIST, line) }
    }

    deinit {
        curl_share_cleanup(share)
        sum.count -= count
    }

    /// Lets a request send and take cookies. The handle must not outlive the jar.
    func attach(to easy: borrowing EasyHandle) {
        lastUse = .now
        easy.set(CURLOPT_SHARE, context: share)
        // Without a file, libcurl keeps cookies in memory and writes them nowhere.
        easy.set(CURLOPT_COOKIEFILE, "")
    }

    /// An answer has set cookies. - Returns: whether an origin makes the jar hold more than any needs.
    func isTooFull(afterSetting news: Int, by handle: UnsafeMutableRawPointer) -> Bool {
        (lines, count) = (lines + news, count + news)
        guard lines >= Self.countInterval else { return false }
        (lines, count) = (0, Int(reel_count_cookies(handle)))
        return count > Self.limit
    }

    /// Counts the cookies: lines may have set again what was there.
    func recount() {
        guard lines > 0, let easy = EasyHandle() else { return }
        easy.set(CURLOPT_SHARE, context: share)
        (lines, count) = (0, Int(reel_count_cookies(easy.pointer)))
    }
}

/// The cookies of all jars together, at most: also of those that only a request under way holds.
///
/// Belongs to the transport's thread.
final class CookieSum {
    fileprivate(set) var count = 0
}

/// Whether a line of a Netscape cookie file is for a host or one above it, by its first field (RFC 6265, section
/// 5.1.3).
func isCookie(_ line: String, for host: String) -> Bool {
    var domain = line.utf8.prefix { $0 != 0x09 }
    let mark = "#HttpOnly_".utf8
    if domain.starts(with: mark) { domain = domain.dropFirst(mark.count) }
    if domain.first == UInt8(ascii: ".") { domain = domain.dropFirst() }
    let (wanted, host) = (asciiLowercased(String(Substring(domain))), asciiLowercased(host))
    return !wanted.isEmpty && (host == wanted || host.hasSuffix("." + wanted))
}
