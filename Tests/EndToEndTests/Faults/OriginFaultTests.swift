import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// The fault matrix, the origin's part: each fault begins when the file is open and in part read.
    @Suite struct OriginFaultTests {
        struct Trouble: CustomTestStringConvertible, Sendable {
            var testDescription: String
            /// What makes the origin misbehave, for some requests or for good.
            var begin: @Sendable (FileOrigin) -> Void
            var allowed: Set<Int32>

            init(_ name: String, allowing allowed: Set<Int32> = [], _ begin: @escaping @Sendable (FileOrigin) -> Void) {
                (testDescription, self.begin, self.allowed) = (name, begin, allowed)
            }

            static let length: Int64 = 4 << 20 + 321
            /// Refused as a whole, so nothing is kept of it.
            static let wrong: Set<Int32> = [EIO, ESTALE]

            static let all = [
                Trouble("resets in the body") { $0.fail(.resetAfter(200_000), times: 4) },
                Trouble("resets before the body") { $0.fail(.resetAfter(0), times: 2) },
                Trouble("short bodies") { $0.fail(.shortBody(after: 200_001), times: 4) },
                Trouble("500 for a while") { $0.fail(.status(500, retryAfter: nil), times: 3) },
                Trouble("503 with Retry-After") { $0.fail(.status(503, retryAfter: 1), times: 1) },
                Trouble("a wrong Content-Range", allowing: wrong) { $0.fail(.wrongContentRange, times: 3) },
                Trouble("no Content-Range", allowing: wrong) { $0.fail(.noContentRange, times: 3) },
                Trouble("a wrong total", allowing: wrong) { $0.fail(.wrongTotal, times: 3) },
                Trouble("a body longer than its range", allowing: wrong) { $0.fail(.tooLongBody, times: 3) },
                Trouble("bytes that are compressed", allowing: wrong) { $0.fail(.gzip, times: 3) },
                Trouble("a portal's page", allowing: wrong) { $0.fail(.htmlWith200, times: 3) },
                Trouble("stalls in the body", allowing: [ETIMEDOUT]) { $0.fail(.stallAfter(200_000), times: 2) },
                Trouble("silence", allowing: [ETIMEDOUT]) { $0.fail(.silent, times: 2) },
                Trouble("silence for good", allowing: [ETIMEDOUT]) { $0.fault = .silent },
                Trouble("500 for good", allowing: [EIO]) { $0.fault = .status(500, retryAfter: nil) },
                Trouble("a slow drip") { $0.fault = .drip(piece: 32 << 10, pause: .milliseconds(10)) },
                Trouble("200 instead of 206") { $0.fault = .wholeToRange },
                Trouble("200 instead of 206, some of the time") { $0.fail(.wholeToRange, times: 2) },
                Trouble("a redirect that expires") { $0.fault = .redirectExpires(uses: 2) },
                Trouble("another tag", allowing: [ESTALE]) { $0.fault = .changedETag },
                Trouble("another file of the same length", allowing: [ESTALE]) {
                    $0.change(to: FileOrigin.Version(seed: 2, length: length, entityTag: "\"v2\""))
                },
                Trouble("a shorter file", allowing: [ESTALE]) {
                    $0.change(to: FileOrigin.Version(seed: 2, length: length - 1 << 20, entityTag: "\"v2\""))
                },
            ]
        }

        @Test("An origin in trouble never gives wrong bytes", arguments: Trouble.all, Shape.tried)
        func trouble(_ trouble: Trouble, _ shape: Shape) throws {
            let film = FileOrigin(length: Trouble.length, seed: 1)
            let old = film.version
            try withMount(of: film, FaultReaders.options) { scene, server, mount in
                let handle = try OpenDescriptor(mount.file("film.mkv"))
                #expect(try handle.bytes(at: 0, count: 4096) == old.bytes.bytes(ByteRange(0, 4096)))
                trouble.begin(film)
                // A file that became another one is opened as that one: its readers keep to the open handle instead.
                let isSame = film.version.bytes == old.bytes
                let path = mount.file("film.mkv")
                FaultReaders.onePass(
                    shape, path, old, allowing: trouble.allowed, handle: isSame ? nil : handle.number
                ).expectRight()
                film.fault = nil
                film.forgetScript()
                // An open believes for 5 s what the origin confirmed: once is enough to wait for that.
                if trouble.allowed == [ESTALE], shape != .inOrder { return }
                let now = film.version
                var outcome = FaultReaders.onePass(.inOrder, path, now)
                // And what failed a moment ago may fail once more without being asked for.
                eventually(within: .seconds(8)) {
                    if outcome.count > 0 { outcome = FaultReaders.onePass(.inOrder, path, now) }
                    return outcome.count == 0
                }
                outcome.expectRight("afterwards:")
            }
        }
    }
}
