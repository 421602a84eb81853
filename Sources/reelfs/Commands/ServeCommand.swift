import ArgumentParser
import Glibc
import ReelListener
import ReelThreads
import ReelVolume

struct ServeCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve a source over HTTP, without a mount.",
        discussion: """
            Prints the address, and serves the tree below /files/ until SIGINT or SIGTERM. Needs neither root nor \
            /dev/fuse; takes the cache and the options of `reelfs mount`.
            """)

    @Argument(
        help: "URL, s3://BUCKET, or path of a playlist or catalogue.",
        completion: .file())
    var source: String
    @Option(
        name: .short,
        help: ArgumentHelp(
            "Options of `reelfs mount`; those without effect here are ignored.", valueName: "options"))
    var o: [String] = []
    @OptionGroup var options: OptionArguments<ServeScope>

    func perform() throws -> Int32 {
        try requireReadable(source)
        var options = try MountOptions(o.flatMap { givenOptions($0) } + options.given)
        options.listen = options.listen ?? .loopback("127.0.0.1", port: 0)
        let manager = ServiceManager.fromEnvironment()
        do throws(Failure) {
            try serve(options, manager)
            return 0
        } catch {
            manager.tell(.failed(error.sentence))
            return error.printed()
        }
    }

    private func serve(_ options: MountOptions, _ manager: ServiceManager) throws(Failure) {
        guard var entrance = try Entrance(options) else { return }
        // The cache shows the address to others who want the same part of it.
        let request = MountRequest(source: source, mountpoint: entrance.address, options: options)
        let (configuration, signals) = try Daemon.prepare(request, ready: nil, manager)
        let wiring = try Wiring(configuration)
        signals.keep()
        var control: ControlServer?
        let listener: Listener
        do throws(Failure) {
            let service = ControlService(
                volume: wiring.volume, reload: wiring.reload, setOffline: { wiring.setOffline($0) }, mounts: nil,
                configuration: configuration, listening: request.mountpoint, tokenFile: entrance.tokenFile)
            control = try ControlServer(path: wiring.socketPath, service: service)
            try entrance.readToken(configuration.logger)
            listener = try entrance.open(service)
        } catch {
            control?.withdraw()
            control?.stop()
            wiring.stop()
            throw error
        }
        let isOver = Monitor(false)
        signals.serve(reload: wiring.hangUp) { isOver.withLock { $0 = true } }
        writeAll(1, Array("\(listener.address)\n".utf8))
        manager.tell(.ready("\(withoutQuery(source)) at \(listener.address)"))
        isOver.wait { $0 ? () : nil }
        manager.tell(.stopping("writing the cache"))
        listener.stop()
        control?.endJobs()
        control?.withdraw()
        wiring.stop()
        control?.stop()
    }
}
