import Glibc

/// What of a daemon's environment the next one needs, whoever starts that.
enum LeftEnvironment {
    /// systemd gives `CREDENTIALS_DIRECTORY` to `ExecStart=` alone from some release on, and not to `ExecReload=`.
    private static let alone = ["CREDENTIALS_DIRECTORY"]

    /// The values in this process's environment, empty ones too.
    static func own() -> [String: String] { values(of: alone + AWSProfile.variables) }

    /// Takes the values of another process. One of its own that leads to keys of a bucket keeps out all such.
    static func adopt(_ values: [String: String]) {
        let keys = Self.values(of: AWSProfile.variables).isEmpty ? AWSProfile.variables : []
        for name in alone + keys { if let value = values[name] { setenv(name, value, 0) } }
    }

    private static func values(of names: [String]) -> [String: String] {
        Dictionary(uniqueKeysWithValues: names.compactMap { name in environment(name).map { (name, $0) } })
    }
}
