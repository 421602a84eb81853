import Synchronization
import Testing

@testable import ReelThreads

#if DEBUG
    /// Threads that take turns, and virtual time.
    @Suite("The simulation") struct SimulationTests {
        /// Four threads that write down their turns. - Returns: in which order they took them.
        private func turns(seed: UInt64, _ order: Simulation.Order) -> [Int] {
            let turns = Lock<[Int]>([])
            let (_, left) = Simulation.run(seed: seed, order) {
                let threads = (0..<4).map { number in
                    Thread("\(number)") { for _ in 0..<10 { turns.withLock { $0.append(number) } } }
                }
                for thread in threads { thread?.join() }
            }
            #expect(left.isEmpty)
            return turns.withLock { $0 }
        }

        @Test("A seed stands for one order, and others for others", arguments: [true, false])
        func order(_ isRandom: Bool) {
            let order: Simulation.Order = isRandom ? .random(0.3) : .priorities(changes: 5, points: 50)
            let orders = (0..<10).map { turns(seed: $0, order) }
            #expect(orders == (0..<10).map { turns(seed: $0, order) })
            #expect(Set(orders).count > 5)
            for order in orders { #expect(order.sorted() == (0..<4).flatMap { [Int](repeating: $0, count: 10) }) }
        }

        @Test("Time passes only while all threads wait, and a wait ends at its time or at a change") func time() {
            let value = Monitor(0)
            let (simulation, _) = Simulation.run(seed: 1, .random(0.1)) {
                let start = now()
                #expect(value.wait(atMost: .seconds(3600)) { $0 == 1 ? true : nil } == nil)
                #expect(now() - start >= .seconds(3600) && now() - start < .seconds(3601))
                let thread = Thread("other") {
                    Simulation.sleep(.seconds(100))
                    value.withLock { $0 = 1 }
                }
                value.wait { $0 == 1 ? () : nil }
                thread?.join()
                #expect(now() - start < .seconds(3701))
            }
            #expect(simulation.elapsed > .seconds(3700) && simulation.elapsed < .seconds(3701))
        }

        @Test("A thread that is left when the first one ends is named") func left() {
            let value = Monitor(false)
            let (_, left) = Simulation.run(seed: 1, .random(0.1)) {
                Thread("forgotten") { value.wait { $0 ? () : nil } }?.detach()
            }
            #expect(left == ["forgotten"])
        }

        @Test("Threads that wait for each other end the program, which says who holds what") func deadlock() async {
            let end = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
                let one = Lock(0, .file, file: "One.swift")
                let other = Lock(0, .index, file: "Other.swift")
                _ = Simulation.run(seed: 1, .random(1)) {
                    _ = LockPlace.broken {
                        let thread = Thread("second") {
                            _ = LockPlace.broken { other.withLock { _ in one.withLock { _ in } } }
                        }
                        for _ in 0..<100 { one.withLock { _ in other.withLock { _ in } } }
                        thread?.join()
                    }
                }
            }
            let words = String(decoding: end?.standardErrorContent ?? [], as: UTF8.self)
            #expect(words.contains("all threads wait") && words.contains("holds index (Other.swift)"), "\(words)")
        }
    }
#endif
