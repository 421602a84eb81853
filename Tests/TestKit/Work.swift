import Glibc

/// Shows that work grows no faster than what it is done on: processor time of this thread alone, so that other work on
/// the machine does not count.
package struct Work: CustomStringConvertible, Sendable {
    /// Seconds for the size, and for eight times as much.
    package let seconds: [Double]

    /// - Parameters:
    ///   - size: what `input` is made of, once; large enough that its work takes a tenth of a millisecond.
    ///   - run: what is measured. The least of two runs counts.
    package init<Input>(size: Int, input: (Int) -> Input, run: (Input) -> Void) {
        seconds = [1, 8].map { times in
            let input = input(size * times)
            return (0..<2).map { _ in
                let start = threadSeconds()
                run(input)
                return threadSeconds() - start
            }.min() ?? 0
        }
    }

    /// Eight times as much takes 8 times as long, and 64 times where each piece is compared with each; 24 lies between,
    /// far from both. Less than a millisecond cannot be measured, and need not be.
    package var isLinear: Bool { seconds[1] < 0.001 || seconds[1] < 24 * max(seconds[0], 0.000_02) }

    package var description: String { seconds.map { "\(($0 * 1e6).rounded() / 1e3) ms" }.joined(separator: ", ") }
}

private func threadSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
