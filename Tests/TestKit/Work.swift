import Glibc

/// Shows that work grows no faster than what it is done on: processor time of this thread alone, so that other work on
/// the machine does not count.
package struct Work: CustomStringConvertible, Sendable {
    /// Seconds for the size, and for eight times as much.
    package let seconds: [Double]

    /// - Parameters:
    ///   - size: what `input` is made of, once; large enough that its work takes a tenth of a millisecond.
    ///   - run: what is measured. The least of two runs counts, if one of the larger size is not enough.
    package init<Input>(size: Int, input: (Int) -> Input, run: (Input) -> Void) {
        func seconds(_ input: Input) -> Double {
            let start = threadSeconds()
            run(input)
            return threadSeconds() - start
        }
        let (once, eightfold) = (input(size), input(8 * size))
        // Whatever is made at its first use is made in the first run.
        let small = min(seconds(once), seconds(once))
        let large = seconds(eightfold)
        self.seconds = [small, Self.isLinear(small, large) ? large : min(large, seconds(eightfold))]
    }

    package var isLinear: Bool { Self.isLinear(seconds[0], seconds[1]) }

    /// Eight times as much takes 8 times as long, and 64 times where each piece is compared with each; 24 lies between,
    /// far from both. Less than a millisecond cannot be measured, and need not be.
    private static func isLinear(_ small: Double, _ large: Double) -> Bool {
        large < 0.001 || large < 24 * max(small, 0.000_02)
    }

    package var description: String { seconds.map { "\(($0 * 1e6).rounded() / 1e3) ms" }.joined(separator: ", ") }
}

private func threadSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
