import Glibc
import Logging
import ReelVolume

/// Everything the volume is made from, checked and absolute.
struct FilesystemConfiguration {
    var source: String
    /// The directory the command was started in: what a relative path of a list is resolved against.
    var workingDirectory: String
    /// This source's own directory inside the cache, 0700, existing.
    var directory: String
    /// Also the answer of the root's xattr `user.reelfs.socket`.
    var socketPath: String
    var cacheSize: Int64
    var timeout: Duration
    var headers: [(name: String, value: String)]
    var userAgent: String?
    var isDemo: Bool
    var logger: Logger

    init(_ request: MountRequest, directory: String, logger: Logger) throws(Failure) {
        source = request.source
        workingDirectory = currentDirectory()
        self.directory = directory
        socketPath = directory + "/control"
        cacheSize = request.options.cacheSize
        timeout = .seconds(request.options.timeout)
        headers = try loadHeaders(request.options.headers)
        userAgent = request.options.userAgent
        isDemo = request.options.demo
        self.logger = logger
    }
}

/// A filesystem and the three things the daemon does with it beside serving it.
struct ServedFilesystem {
    var filesystem: any Filesystem
    var status: @Sendable () -> VolumeStatus
    /// Once, before requests arrive.
    var connect: (any KernelCache) -> Void
    /// After the last request: commits the cache and closes it.
    var stop: () -> Void
}

/// The one place where tree, cache and origin are joined.
func makeFilesystem(_ configuration: FilesystemConfiguration) throws(Failure) -> ServedFilesystem {
    if configuration.isDemo {
        let demo = DemoFilesystem(socketPath: configuration.socketPath)
        return ServedFilesystem(filesystem: demo, status: { demo.status() }, connect: { _ in }, stop: {})
    }
    throw .mount("mounting \(withoutQuery(configuration.source)) is not built in yet")
}
