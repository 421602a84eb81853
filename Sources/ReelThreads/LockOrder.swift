#if DEBUG
    import Glibc

    /// The place of one lock in the order, and the check that each thread keeps to it.
    @usableFromInline package struct LockPlace: Sendable {
        private let rank: LockRank
        /// Where the lock is made.
        private let file: StaticString
        /// In a simulation: who has it.
        let door: Simulation.Turnstile

        @usableFromInline package init(_ rank: LockRank, _ file: StaticString) {
            self.rank = rank
            self.file = file
            door = Simulation.Turnstile("\(rank) (\(file))")
        }

        /// Before the lock is taken. Ends the program where the thread holds one of the same rank or a later one.
        @usableFromInline package func enter() {
            enter("taken", under: rank.rawValue..<LockRank.count)
            if let member = Simulation.current { member.simulation.enter(door, member) }
        }

        /// After the lock is given back.
        @usableFromInline package func leave() {
            heldByThisThread().files[rank.rawValue] = nil
            if let member = Simulation.current { member.simulation.leave(door, member) }
        }

        /// Before the thread sleeps until another one changes the value, which may need any lock.
        @usableFromInline package func sleep() {
            enter("waited on", under: 0..<LockRank.count)
            if let member = Simulation.current { member.simulation.enter(door, member) }
        }

        private func enter(_ verb: StaticString, under ranks: Range<Int>) {
            let held = heldByThisThread()
            for other in ranks {
                guard let file = held.files[other] else { continue }
                let sentence = "lock order: \(self) \(verb) under \(LockRank(rawValue: other)!) (\(file))"
                if held.broken == nil { fatalError(sentence) }
                held.broken?.append(sentence)
            }
            held.files[rank.rawValue] = file
        }

        /// The violations of the order in `body`, on this thread; elsewhere each ends the program.
        package static func broken(by body: () -> Void) -> [String] {
            let held = heldByThisThread()
            held.broken = []
            body()
            return held.broken.take() ?? []
        }
    }

    extension LockPlace: CustomStringConvertible {
        @usableFromInline package var description: String { "\(rank) (\(file))" }
    }

    /// The locks that a thread holds. Made once a thread: a hit takes locks, and must not allocate.
    private final class HeldLocks {
        /// By rank, as no two locks of one rank are held at once.
        var files = [StaticString?](repeating: nil, count: LockRank.count)
        /// Set while a test looks on.
        var broken: [String]?
    }

    private func heldByThisThread() -> HeldLocks {
        if let memory = pthread_getspecific(heldKey) {
            return Unmanaged<HeldLocks>.fromOpaque(memory).takeUnretainedValue()
        }
        let held = HeldLocks()
        pthread_setspecific(heldKey, Unmanaged.passRetained(held).toOpaque())
        return held
    }

    private let heldKey: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { Unmanaged<HeldLocks>.fromOpaque($0!).release() }
        return key
    }()
#endif
