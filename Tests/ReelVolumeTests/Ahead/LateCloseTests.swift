import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// The kernel tells of a close when the program goes on already: maybe it reads the file again by then.
@Suite struct LateCloseTests {
    @Test("What a program reads after it has looked at a file's length says nothing about all files")
    func closesLate() throws {
        for seed in 1...100 as ClosedRange<UInt64> { try closesLate(seed) }
    }

    private func closesLate(_ seed: UInt64) throws {
        let film = FileOrigin(length: 5 << 20)
        try withTemporaryDirectory { place in
            defer { removeTree(place + "/cache") }
            _ = try Simulation.run(seed: seed, .random(0.3)) {
                let origin = SimulatedTransport(["http://origin": { film.answer($0) }], seed: seed)
                let store = try Store(
                    directory: place + "/cache", source: "http://origin/film.mkv", limits: CacheLimits(cap: 1 << 30),
                    owner: "/nowhere", cipher: nil)
                let volume = try Volume.open(
                    "http://origin/film.mkv", origin: origin, store: store, options: VolumeOptions(),
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                let opened = Monitor<(any FileHandle)?>(nil)
                volume.lookup("film.mkv", in: rootNode) { entry in
                    guard case .success(let entry) = entry else { return }
                    volume.open(entry.node) { file in opened.withLock { $0 = try? file.get() } }
                }
                let handle = opened.wait { $0 }
                let file = volume.files.all[0]
                let program = ProgramTallies()["scan"]
                for _ in 0..<2 { program.ends("mkv", bytes: 4 << 20) }
                _ = file.decide { $0.opened(by: program) }

                let closing = Thread("close") { volume.close(handle) }
                file.opened()
                let read = TestRead()
                let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 16)
                if case .parked = file.read(0, into: bytes, of: rootNode, park: { read }) { _ = read.wait() }
                bytes.deallocate()
                closing?.join()
                // Two files show nothing, and this one is open.
                #expect(program.reach("mkv") == 0, "seed \(seed)")
                file.closed()
                volume.shutdown()
                origin.shutdown()
                store.close()
            }
        }
    }
}
