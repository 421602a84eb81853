import CLinux
import Glibc

let words = CommandLine.arguments
guard let place = words.firstIndex(of: "--one"), place + 1 < words.count, let number = UInt64(words[place + 1]) else {
    exit(try Seeds(words).run())
}
// The order of a dictionary follows from hashes, and those of objects from their addresses.
let fixed = "REELFS_SIMULATION_IS_FIXED"
if getenv(fixed) == nil {
    setenv(fixed, "1", 1)
    setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
    personality(UInt(ADDR_NO_RANDOMIZE))
    execv("/proc/self/exe", CommandLine.unsafeArgv)
}
mallopt(M_ARENA_MAX, 1)
exit(try Seed(number: number, detail: words.count > place + 2 ? words[place + 2] : nil).run())
