import Glibc

/// What `make test-long` runs beside what `make test` does: each combination of what one of each kind shows nearly as
/// well, and more rounds of what chance decides.
package enum LongTests {
    package static let areRun = getenv("REELFS_TEST_LONG") != nil

    /// - Parameter few: what `make test` runs of it.
    package static func all<Value>(_ all: [Value], elseOnly few: [Value]) -> [Value] { areRun ? all : few }

    package static func many(_ many: Int, elseOnly few: Int) -> Int { areRun ? many : few }
}
