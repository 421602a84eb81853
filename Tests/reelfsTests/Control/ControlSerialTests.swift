import Glibc
import TestKit
import Testing

@testable import reelfs

/// A time that only the daemon decides, too short to be told from another one on a busy machine: this runs alone.
@Suite("The control socket, by the clock", .serialized, .enabled(if: fuseIsUsable))
struct ControlSerialTests {
    @Test("A client that asks without end and takes no answer does not hold up the end of the mount")
    func deafClient() throws {
        try CommandTests.withPlace { place in
            let words = ["mount", place.source, place.mountpoint, "--cache-dir", place.cache]
            #expect(try CommandTests.run(words).status == 0)
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            defer { close(descriptor) }
            try #require(UnixAddress.reaching(place.control, { $0.connect(descriptor) == 0 }) ?? false)
            let request = Array("{\"version\":1,\"command\":\"list\"}\n".utf8)
            var writable = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            // Until neither side takes anything: from then on a job waits for this client.
            while poll(&writable, 1, 1000) == 1 {
                let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
                guard send(descriptor, request, request.count, flags) > 0 || errno == EAGAIN else { break }
            }
            let begin = ContinuousClock.now
            #expect(try CommandTests.run(["umount", place.mountpoint]).status == 0)
            // A client of whom nothing is expected any more has ten seconds otherwise, one of which has passed.
            #expect(ContinuousClock.now - begin < .seconds(8))
        }
    }
}
