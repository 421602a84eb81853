#if DEBUG
    import Glibc

    /// The place of one lock in the order, and the check that each thread keeps to it.
    @usableFromInline package struct LockPlace: Sendable {
        private let rank: LockRank
        /// Where the lock is made.
        private let file: StaticString

        @usableFromInline package init(_ rank: LockRank, _ file: StaticString) {
            self.rank = rank
            self.file = file
        }

        /// Before the lock is taken. Ends the program where the thread holds one of the same rank or a later one.
        @usableFromInline package func enter() {
            let held = heldByThisThread()
            for other in rank.rawValue..<LockRank.count {
                guard let file = held[other] else { continue }
                fatalError("lock order: \(self) taken under \(LockPlace(LockRank(rawValue: other)!, file))")
            }
            held[rank.rawValue] = file
        }

        /// After the lock is given back.
        @usableFromInline package func leave() { heldByThisThread()[rank.rawValue] = nil }

        /// Before the thread sleeps until another one changes the value: that one may need any lock.
        @usableFromInline package func sleep() {
            let held = heldByThisThread()
            for other in 0..<LockRank.count {
                guard let file = held[other] else { continue }
                fatalError("lock order: \(self) waited on under \(LockPlace(LockRank(rawValue: other)!, file))")
            }
            enter()
        }
    }

    extension LockPlace: CustomStringConvertible {
        @usableFromInline package var description: String { "\(rank) (\(file))" }
    }

    /// By rank, as no two locks of one rank are held at once. Allocated once a thread: a hit takes locks, and must not
    /// allocate.
    private func heldByThisThread() -> UnsafeMutablePointer<StaticString?> {
        if let memory = pthread_getspecific(heldKey) { return memory.assumingMemoryBound(to: StaticString?.self) }
        let held = UnsafeMutablePointer<StaticString?>.allocate(capacity: LockRank.count)
        held.initialize(repeating: nil, count: LockRank.count)
        pthread_setspecific(heldKey, held)
        return held
    }

    private let heldKey: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { $0?.deallocate() }
        return key
    }()
#endif
