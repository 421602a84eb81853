import Glibc
import ReelCache
import ReelCore
import ReelListener
import ReelSources
import ReelThreads

// Reads the values of options. An error names the expected form, and does not repeat the value, which may be a secret.

/// Any text that is not empty.
func text(_ name: String, _ value: String?) throws(Failure) -> String {
    guard let value, !value.isEmpty else { throw .usage("option \(name) needs a value: \(name)=…") }
    return value
}

/// A name alone.
func flag(_ name: String, _ value: String?) throws(Failure) -> Bool {
    guard value == nil else { throw .usage("option \(name) takes no value") }
    return true
}

/// A name alone, or with `=yes` or `=no`.
func choice(_ name: String, _ value: String?) throws(Failure) -> Bool {
    switch value {
    case nil, "yes": return true
    case "no": return false
    default: throw .usage("option \(name) takes no value, or yes or no")
    }
}

/// Digits, and at most one unit behind them.
/// - Parameters:
///   - range: of the result; its lower bound, of the digits.
///   - expected: for the error, the expected form.
func number(
    _ name: String, _ value: String?, _ range: ClosedRange<Int64>, _ expected: String, units: [String: Int64] = [:]
) throws(Failure) -> Int64 {
    let whole = try text(name, value)
    let digits = whole.prefix { $0.isASCII && $0.isNumber }
    let rest = String(whole.dropFirst(digits.count))
    guard let unit = rest.isEmpty ? 1 : units[rest], let count = Int64(digits), count >= range.lowerBound,
        count <= range.upperBound / unit
    else { throw .usage("option \(name) must be \(expected)") }
    return count * unit
}

/// A user by name (passwd(5)) or number.
func user(_ name: String, _ value: String?) throws(Failure) -> UInt32 {
    if let known = Account.user(named: try text(name, value)) { return known.id }
    return UInt32(try number(name, value, 0...4_294_967_294, "a user's name or number"))
}

/// A group by name (group(5)) or number.
func group(_ name: String, _ value: String?) throws(Failure) -> UInt32 {
    if let known = Account.group(named: try text(name, value)) { return known.id }
    return UInt32(try number(name, value, 0...4_294_967_294, "a group's name or number"))
}

/// Permission bits.
func octal(_ name: String, _ value: String?) throws(Failure) -> UInt32 {
    guard let mask = UInt32(try text(name, value), radix: 8), mask <= 0o777 else {
        throw .usage("option \(name) must be an octal number up to 777")
    }
    return mask
}

/// In bytes, at least `minimum`. A small number without a unit is a unit forgotten.
func size(_ name: String, _ value: String?, minimum: Int64 = 1) throws(Failure) -> Int64 {
    let expected = "a size such as 500M, 20G or 1T"
    guard let bytes = byteSize(try text(name, value)), bytes >= minimum else {
        throw .usage("option \(name) must be \(expected)")
    }
    guard bytes == 0 || bytes >= 1 << 20 || value?.utf8.last.map(isDigit) != true else {
        throw .usage("option \(name) must be \(expected); without a unit, \(bytes) are bytes")
    }
    return bytes
}

/// Digits and one of s (or nothing), m, h, d; once or more often, as in 1h30m. In seconds.
func duration(
    _ name: String, _ value: String?, _ range: ClosedRange<Int64> = 0...100 * 365 * 86_400,
    _ expected: String = "a time such as 90, 5m, 12h or 30d"
) throws(Failure) -> Int64 {
    let units: [String: Int64] = [
        "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400,
    ]
    var rest = try text(name, value)[...]
    var sum: Int64 = 0
    repeat {
        let digits = rest.prefix { $0.isNumber }
        let part = digits + rest.dropFirst(digits.count).prefix { !$0.isNumber }
        sum += try number(name, String(part), 0...range.upperBound, expected, units: units)
        rest = rest.dropFirst(part.count)
    } while !rest.isEmpty
    guard range.contains(sum) else { throw .usage("option \(name) must be \(expected)") }
    return sum
}

/// The length of a film. In seconds.
func playingTime(_ name: String, _ value: String) throws(Failure) -> Int64 {
    try duration(name, value, 1...1000 * 3600 - 1, "a time such as 2h10m, 45m or 90")
}

/// A rate, or rates by the time of day.
func rateSchedule(_ name: String, _ value: String?) throws(Failure) -> RateSchedule {
    guard let schedule = RateSchedule(try text(name, value)) else {
        throw .usage("option \(name) must be bytes a second such as 500K or 2M, off, or times: 08:00,2M 23:00,off")
    }
    return schedule
}

/// A size, or a percentage of the disk.
func floor(_ name: String, _ value: String?) throws(Failure) -> CacheLimits.Floor {
    let whole = try text(name, value)
    let expected = "a size such as 2G, or a percentage such as 5%"
    if whole.last == "%" {
        return .percent(Int(try number(name, String(whole.dropLast()), 0...99, expected)))
    }
    let bytes = try size(name, whole, minimum: 0)
    return .bytes(bytes)
}

/// One line.
func printable(_ name: String, _ value: String?) throws(Failure) -> String {
    let line = try text(name, value)
    guard line.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
        throw .usage("option \(name) must be one line without control characters")
    }
    return line
}

/// The name of a file in one folder.
func fileName(_ name: String, _ value: String?) throws(Failure) -> String {
    let text = try printable(name, value)
    guard text.utf8.count <= 255, !text.utf8.contains(UInt8(ascii: "/")), text != ".", text != ".." else {
        throw .usage("option \(name) must be the name of a file, without a folder")
    }
    return text
}

/// The URL of a service, with a path or without.
func endpoint(_ name: String, _ value: String?) throws(Failure) -> ResourceURL {
    let url = ResourceURL(try text(name, value))
    guard let url, url.query == nil, url.credentials == nil else {
        throw .usage("option \(name) must be an http(s) URL without user, password and query")
    }
    return url
}

/// A place at which clients connect.
func listenAddress(_ name: String, _ value: String?) throws(Failure) -> ListenAddress {
    guard let address = ListenAddress(try text(name, value)) else {
        throw .usage("option \(name) must be PORT, HOST:PORT, [IPV6]:PORT or unix:PATH with an absolute path")
    }
    return address
}

/// The scheme and host of a proxy.
func listenOrigin(_ name: String, _ value: String?) throws(Failure) -> ServedOrigin {
    guard let origin = ServedOrigin(try text(name, value)) else {
        throw .usage("option \(name) must be https://NAME or http://NAME, with a port or without, and no path")
    }
    return origin
}

/// A further base of a source's tree.
func mirror(_ name: String, _ value: String?) throws(Failure) -> ResourceURL {
    let url = ResourceURL(try text(name, value))
    guard let url, url.query == nil, url.credentials == nil else {
        throw .usage(
            "option \(name) must be a URL without user, password and query; mirrors are for http and https")
    }
    return url
}

/// The address of a bucket.
func bucket(_ name: String, _ value: String?) throws(Failure) -> String {
    let address = try printable(name, value)
    guard S3Address(address) != nil else {
        throw .usage("option \(name) must be s3://BUCKET/PREFIX, or s3+ENDPOINT#BUCKET/PREFIX")
    }
    return address
}

/// The pieces in which files are asked for: blocks at least, and no longer than a reader waits for one.
func alignment(_ name: String, _ value: String?) throws(Failure) -> Int64 {
    let bytes = try size(name, value)
    guard (BlockSize.block...(64 << 20)).contains(bytes), bytes.nonzeroBitCount == 1 else {
        throw .usage("option \(name) must be a power of two from 128K to 64M")
    }
    return bytes
}

/// A word that may stand in a signature.
func region(_ name: String, _ value: String?) throws(Failure) -> String {
    let word = try text(name, value)
    let isWord = word.utf8.allSatisfy { isLetter($0) || isDigit($0) || "-_.".utf8.contains($0) }
    guard isWord, word.utf8.count <= 64 else { throw .usage("option \(name) must be a name such as eu-west-1") }
    return word
}

/// One of `CacheKey`.
func cacheKey(_ name: String, _ value: String?) throws(Failure) -> CacheKey {
    guard let key = value.flatMap({ CacheKey(rawValue: $0) }) else {
        throw .usage("option \(name) must be one of \(CacheKey.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return key
}

/// A program and its arguments.
func command(_ name: String, _ value: String?) throws(Failure) -> Command {
    guard let command = Command(parsing: try text(name, value)) else {
        throw .usage("option \(name) must be a program and its arguments, in words; quotes must be closed")
    }
    return command.absolute
}

/// Least severe first.
let logLevels = ["trace", "debug", "info", "notice", "warning", "error", "critical"]

/// One of ``logLevels``.
func level(_ name: String, _ value: String?) throws(Failure) -> String {
    guard let value, logLevels.contains(value) else {
        throw .usage("option \(name) must be one of \(logLevels.joined(separator: ", "))")
    }
    return value
}

/// `Name: value`, or `@FILE`.
func header(_ line: String) throws(Failure) -> HeaderOption {
    if line.first == "@" { return .file(String(line.dropFirst())) }
    guard let field = HeaderField(parsing: line) else {
        throw .usage("option header must be \"Name: value\" on one line, or @FILE")
    }
    return .field(field)
}

/// A word of the command line for an error: short, on one line, and without the secrets of a misplaced URL.
func shown(_ word: String) -> String {
    let line = printable(withoutSecrets(word))
    return line.count > 60 ? line.prefix(60) + "…" : line
}
