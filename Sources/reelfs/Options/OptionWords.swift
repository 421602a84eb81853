/// What to write in place of a word that is no option.
enum OptionWords {
    /// - Parameter name: with hyphens, but none in front.
    /// - Returns: the end of a sentence, nil if nothing is near.
    static func advice(on name: String) -> String? {
        if let ours = foreign[name] { return ours }
        let names = OptionTable.rows.filter { !$0.scope.contains(.hidden) }.map(\.name)
        return nearest(to: name, of: names).map { "the nearest is \($0)" }
    }

    private static func named(_ name: String) -> String { "its name here is \(name)" }
    private static let covers = "leave it out, as a mount covers what is in its directory"
    private static let login = "credentials=FILE names a file with username= and password="

    /// Words of rclone, curl, sshfs and mount(8).
    private static let foreign = [
        "bwlimit": named("limit-rate"), "dir-cache-time": named("refresh"), "poll-interval": named("refresh"),
        "vfs-cache-max-size": named("cache-size"), "vfs-cache-max-age": named("cache-age"),
        "vfs-cache-min-free-space": named("min-free"),
        "vfs-read-ahead": "how far to read ahead follows from the readers",
        "buffer-size": "how far to read ahead follows from the readers",
        "vfs-cache-mode": "leave it out, as all that is read is cached", "daemon": "leave it out, or write foreground",
        "contimeout": named("timeout"), "max-time": named("timeout"), "connect-timeout": named("timeout"),
        "allow-non-empty": covers, "nonempty": covers, "reconnect": "leave it out, as a mount does so by itself",
        "read-only": "leave it out, as every mount is read-only", "allow-root": named("allow-other"),
        "attr-timeout": named("refresh"),
        "k": "cacert=FILE names an authority to trust", "insecure": "cacert=FILE names an authority to trust",
        "no-check-certificate": "cacert=FILE names an authority to trust",
        "u": login, "user": login, "username": login, "pass": login, "password": login,
        "x": "a proxy stands in the variables http_proxy and https_proxy",
        "proxy": "a proxy stands in the variables http_proxy and https_proxy",
        "cookie": named("cookies"), "identityfile": named("ssh-key"), "userknownhostsfile": named("ssh-known-hosts"),
        "p": "write the port into the URL: sftp://HOST:PORT/", "port": "write the port into the URL: sftp://HOST:PORT/",
        "rate": named("limit-rate"), "limit": named("limit-rate"), "cache-path": named("cache-dir"),
    ]
}

/// The word that is meant, nil if none is near.
func nearest(to word: String, of names: [String]) -> String? {
    let all = names.map { (name: $0, edits: edits(from: word, to: $0)) }
    return all.min { $0.edits < $1.edits }.flatMap { $0.edits <= min(2, (word.utf8.count + 1) / 3) ? $0.name : nil }
}

/// How many bytes must be put in, taken out or replaced (Levenshtein).
private func edits(from one: String, to other: String) -> Int {
    var row = Array(0...other.utf8.count)
    for (line, byte) in one.utf8.prefix(100).enumerated() {
        var diagonal = row[0]
        row[0] = line + 1
        for (column, wanted) in other.utf8.enumerated() {
            let edits = min(diagonal + (byte == wanted ? 0 : 1), row[column] + 1, row[column + 1] + 1)
            (diagonal, row[column + 1]) = (row[column + 1], edits)
        }
    }
    return row[other.utf8.count]
}
