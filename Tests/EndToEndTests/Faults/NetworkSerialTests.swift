import Glibc
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// How soon the network's return is noticed. Nothing but the time shows that, so this runs alone.
    @Suite(.enabled(if: Network.isPossible || isCI, "a network namespace needs root"), .serialized)
    struct NetworkSerialTests {
        /// Long enough for TCP to wait for seconds before it sends a SYN again.
        @Test(
            "Within a second of the packets' return what is missing can be read, whoever asked meanwhile",
            arguments: LongTests.all(
                [
                    // Where readers wait all the time, nobody else has to ask.
                    (isAsking: true, timeout: 3), (isAsking: false, timeout: 3), (isAsking: false, timeout: 30),
                ], elseOnly: [(isAsking: false, timeout: 3)]))
        func comesBack(isAsking: Bool, timeout: Int) throws {
            try withNetworkStage(timeout: timeout) { _, stage, makeMount in
                let mount = try makeMount([])
                #expect(missing(mount, at: 0) == 0)
                // As kernels before 6.5 do it: a SYN is sent again after one second, two, four.
                try stage.network.inClient("sysctl -qw net.ipv4.tcp_syn_linear_timeouts=0 || true")
                try stage.network.inServer("iptables -I INPUT -i server -j DROP")
                // Readers that wait, and fail where their time is short.
                let ends = Mutex<[(code: Int32, moment: ContinuousClock.Instant)]>([])
                let readers = [Int64(10), 20].map { megabyte in
                    startThread {
                        let code = missing(mount, at: megabyte)
                        ends.withLock { $0.append((code, .now)) }
                    }
                }
                let end = ContinuousClock.now + dropTime
                eventually(within: .seconds(120)) {
                    if isAsking { _ = missing(mount, at: 40) }
                    return ContinuousClock.now > end
                }
                try stage.network.inServer("iptables -F INPUT")
                let healed = ContinuousClock.now
                #expect(eventually(within: .seconds(20)) { missing(mount, at: 60) == 0 })
                let time = ContinuousClock.now - healed
                print("asking \(isAsking), timeout \(timeout): back after \(time)")
                #expect(time < .seconds(1))
                for reader in readers { reader.join() }
                for end in ends.withLock({ $0 }) where dropTime < .seconds(timeout) {
                    print("a reader that waited: \(end.code) after \(end.moment - healed)")
                    #expect(end.code == 0 && end.moment - healed < .seconds(1))
                }
                try mount.unmount()
            }
        }

        /// The usual one provokes pauses of four seconds.
        private var dropTime: Duration {
            .seconds(getenv("REELFS_DROP_SECONDS").flatMap { Int(String(cString: $0)) } ?? 8)
        }
    }
}
