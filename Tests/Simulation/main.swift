import CLinux
import Glibc

let options = Options(CommandLine.arguments)
guard let number = options.number("--one") else {
    exit(options.has("--shrink") ? Seeds(options).shrink() : Seeds(options).run())
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
exit(try Seed(number, options).run())
