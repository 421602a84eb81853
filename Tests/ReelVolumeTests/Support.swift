import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization
import TestKit

@testable import ReelVolume

extension VolumeFixture {
    /// Bytes of a file that are in the cache.
    func cached(_ path: String) -> Int64 {
        volume.status().files.first { $0.path == path }?.cachedBytes ?? 0
    }

    /// Makes it as if the last confirmation of every remembered resource lay an hour back.
    func expire() {
        for object in store.objects() {
            guard let remembered = store.information(for: object.key) else { continue }
            store.remember(remembered.information, for: object.key, checkedAt: remembered.checkedAt - 3600)
        }
    }
}

/// A thread with an answer.
final class Joinable: Sendable {
    private let answer = Monitor<Bool?>(nil)

    init(_ body: @escaping @Sendable () -> Bool) {
        let answer = answer
        Thread("reader") {
            let result = body()
            answer.withLock { $0 = result }
        }?.detach()
    }

    /// False also where it takes longer than a minute.
    func join() -> Bool { answer.wait(atMost: .seconds(60)) { $0 } ?? false }
}

func startJoinable(_ body: @escaping @Sendable () -> Bool) -> Joinable { Joinable(body) }

extension Result where Success == [UInt8], Failure == VolumeError {
    /// Apart from `#expect`, so that a failure does not print megabytes.
    func isRight(_ film: FileOrigin, _ offset: Int64, _ count: Int64) -> Bool {
        // Here `==` of two results would be the standard library's, byte by byte.
        guard case .success(let bytes) = self else { return false }
        return bytes == film.expectedBytes(ByteRange(offset, offset + count))
    }
}

/// Keeps what the kernel would have to forget.
final class Kernel: KernelCache {
    let readsDataFiles: Bool
    let forgotten = Mutex<[String]>([])
    let directories = Mutex<[NodeID]>([])
    let pages = Mutex<[ByteRange]>([])
    let scans = Mutex<[Bool]>([])
    /// Another mount keeps answers, too.
    let hasOther = Mutex(false)
    var isShared: Bool { hasOther.withLock { $0 } }

    init(readsDataFiles: Bool = false) { self.readsDataFiles = readsDataFiles }

    func forgetEntry(_ name: String, in parent: NodeID) { forgotten.withLock { $0.append(name) } }
    func forgetDirectory(_ node: NodeID) { directories.withLock { $0.append(node) } }
    func setScanned(_ isScanned: Bool) { scans.withLock { $0.append(isScanned) } }
    func forgetPages(of node: NodeID, _ range: ByteRange) { pages.withLock { $0.append(range) } }
}

extension ServerStep {
    /// The page of a folder as nginx makes it.
    static func listing(_ files: [(name: String, length: Int64)]) -> [ServerStep] {
        let lines = files.map { "<a href=\"\($0.name)\">\($0.name)</a>  14-Nov-2023 22:13  \($0.length)\r\n" }
        return answer(
            200, [("Content-Type", "text/html")],
            body: "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
                + "<a href=\"../\">../</a>\r\n\(lines.joined())</pre><hr></body></html>")
    }
}
