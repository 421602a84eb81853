import Glibc
import Testing

@testable import reelfs

struct FileLimitTests {
    /// In a process of its own, whose limit it changes.
    @Test func theLimitOfOpenFilesIsRaised() async {
        await #expect(processExitsWith: .success) {
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            var limit = rlimit()
            try #require(getrlimit(resource, &limit) == 0)
            limit.rlim_cur = 200
            try #require(setrlimit(resource, &limit) == 0)
            raiseFileLimit()
            try #require(getrlimit(resource, &limit) == 0)
            #expect(limit.rlim_cur == min(limit.rlim_max, 1 << 16))
        }
    }
}
