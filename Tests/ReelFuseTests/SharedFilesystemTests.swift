import Glibc
import Logging
import ReelThreads
import TestKit
import Testing

@testable import ReelFuse

@Suite("A filesystem with several sessions", .serialized, .enabled(if: fuseIsUsable))
struct SharedFilesystemTests {
    private let files = ["a": MemoryFile(node: 2, length: 1000), "b": MemoryFile(node: 3, length: 1000)]

    @Test("A session that ends by force gives back all that its kernel held: nodes, files and directories")
    func givenBack() throws {
        try withMount(files) { mount in
            let names = ["a", "b"]
            let open = names.map { Glibc.open(mount.file($0), O_RDONLY | O_CLOEXEC) }
            let folder = try #require(opendir(mount.path))
            #expect(readdir(folder) != nil)
            let held = mount.filesystem.state.withLock { ($0.openHandles, $0.references[2], $0.references[3]) }
            #expect(held.0 == 2 && held.1 ?? 0 > 0 && held.2 ?? 0 > 0)
            mount.session.stop()
            #expect(mount.hasEnded.wait(atMost: .seconds(10)) { $0 ? true : nil } == true)
            mount.session.giveBack()
            let left = mount.filesystem.state.withLock { ($0.openHandles, $0.references) }
            #expect(left.0 == 0 && left.1.values.allSatisfy { $0 == 0 }, "\(left)")
            for descriptor in open { close(descriptor) }
            closedir(folder)
        }
    }

    @Test("A mount that this process made is served through its descriptor, and a notice goes to every session")
    func handedOver() throws {
        try withMount(files) { mount in
            try withTemporaryDirectory { path in
                var options = FuseSession.Options(
                    source: "http://h/", mountpoint: path, ownership: Ownership(user: 7, group: 8))
                let device = try MountDevice.make(options)
                #expect(MountDevice.isFuse(device.descriptor) && device.number != nil)
                options.device = device
                let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                let second = try FuseSession(mount.filesystem, options: options, logger: logger)
                try second.start()
                let end = Thread("second") { second.wait() }
                defer {
                    second.stop()
                    end?.join()
                }
                var status = stat()
                #expect(stat(path + "/a", &status) == 0 && status.st_uid == 7)
                #expect(stat(mount.file("a"), &status) == 0 && status.st_uid == 0)
                let caches = KernelCaches()
                for session in [mount.session, second] { caches.add(session.kernelCache) }
                #expect(caches.isShared)
                let before = mount.filesystem.state.withLock { $0.lookups }
                for place in [path, mount.path] { #expect(stat(place + "/a", &status) == 0) }
                #expect(mount.filesystem.state.withLock { $0.lookups } == before)
                caches.forgetEntry("a", in: 1)
                for (number, place) in [path, mount.path].enumerated() {
                    #expect(
                        eventually {
                            _ = stat(place + "/a", &status)
                            return mount.filesystem.state.withLock { $0.lookups } >= before + number + 1
                        })
                }
            }
        }
    }

    @Test("No other file is taken for the device, and a device without a mount is refused at once")
    func noDevice() throws {
        for path in ["/dev/null", "/proc/self/exe", "/tmp"] {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            #expect(!MountDevice.isFuse(descriptor))
            close(descriptor)
        }
        let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        #expect(MountDevice.isFuse(descriptor))
        var options = FuseSession.Options(
            source: "http://h/", mountpoint: "/nowhere", ownership: Ownership(user: 0, group: 0))
        options.device = MountDevice(descriptor: descriptor, number: nil)
        options.patience = .seconds(120)
        let session = try FuseSession(
            MemoryFilesystem([:]), options: options, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let start = ContinuousClock.now
        #expect(throws: MountError.self) { try session.start() }
        #expect(ContinuousClock.now - start < .seconds(40))
    }
}
