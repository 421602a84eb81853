import TestKit

/// A mount whose daemon is a child, so that its log and its last words are known.
struct ForegroundMount {
    let child: ChildProcess
    let path: String

    /// - Parameter prefix: words before the program's own, which end with `exec`.
    init(
        _ scene: Scene, _ source: String, _ options: [String] = [], through prefix: [String] = [],
        environment: [String: String] = [:]
    ) throws {
        path = scene.mountpoint
        let words = prefix + [program, "mount", source, path, "--foreground", "--cache-dir", scene.cache]
        child = try ChildProcess(
            words + scene.keyOptions + options,
            environment: ["no_proxy": "127.0.0.1,localhost"].merging(environment) { $1 })
        let (pid, path) = (child.pid, path)
        let isMounted = { mountTable().contains { $0.mountpoint == path } }
        // What ends it before is its own end; the time is for one that hangs.
        guard eventually(within: .seconds(40), { isMounted() || !isRunning(pid) }), isMounted() else {
            throw Unmounted(sentence: child.said.errors)
        }
    }

    var log: String { child.said.errors }

    func file(_ name: String) -> String { path + "/" + name }
}
