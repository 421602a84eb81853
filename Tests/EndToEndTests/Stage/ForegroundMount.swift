import TestKit

/// A mount whose daemon is a child, so that its log and its last words are known.
struct ForegroundMount {
    let child: ChildProcess
    let path: String

    init(
        _ scene: Scene, _ source: String, _ options: [String] = [], environment: [String: String] = [:]
    ) throws {
        path = scene.mountpoint
        let words = [program, "mount", source, path, "--foreground", "--cache-dir", scene.cache]
        child = try ChildProcess(
            words + scene.keyOptions + options,
            environment: ["no_proxy": "127.0.0.1,localhost"].merging(environment) { $1 })
        guard eventually(within: .seconds(20), { [path] in mountTable().contains { $0.mountpoint == path } }) else {
            throw Unmounted(sentence: child.said.errors)
        }
    }

    var log: String { child.said.errors }

    func file(_ name: String) -> String { path + "/" + name }
}
