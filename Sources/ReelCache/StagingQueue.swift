import ReelCore

/// Which staged blocks are written next. A value: whole blocks and moments go in, runs of neighbours come out.
///
///     waiting ──next──▶ writing ──written──▶ gone
///        ▲                  └─refused──▶ refused
///        └──────── a while later ───────────┘
struct StagingQueue<File: AnyObject & Sendable>: Sendable {
    struct Item: Sendable {
        let file: File
        let block: Int
        /// Goes up from item to item.
        let number: UInt64
        let since: Duration
        /// The disk has not taken it before.
        var wasRefused = false
    }

    /// What a block waits for its neighbours.
    let patience: Duration
    /// How long a disk that refuses is left alone.
    let refusedTime: Duration

    private(set) var waiting: [Item] = []
    private(set) var writing: [Item] = []
    /// What the disk has not taken.
    private(set) var refused: [Item] = []
    private var refusedUntil = Duration.zero
    private var nextNumber: UInt64 = 0
    /// Somebody waits for all below this number.
    private var urgentBelow: UInt64 = 0

    init(patience: Duration, refusedTime: Duration) {
        self.patience = patience
        self.refusedTime = refusedTime
    }

    /// Something will leave it without another call.
    var isMoving: Bool { !waiting.isEmpty || !writing.isEmpty }

    mutating func add(_ block: Int, of file: File, now: Duration) {
        waiting.append(Item(file: file, block: block, number: nextNumber, since: now))
        nextNumber += 1
    }

    /// From here on nothing that is there now waits for neighbours. - Returns: what `isOut` takes.
    mutating func hurry() -> UInt64 {
        urgentBelow = nextNumber
        return nextNumber
    }

    /// All that was there at that `hurry` has been written, or refused.
    func isOut(_ number: UInt64) -> Bool {
        !waiting.contains { $0.number < number } && !writing.contains { $0.number < number }
    }

    mutating func remove(_ blocks: Range<Int>, of file: File) {
        waiting.removeAll { $0.file === file && blocks.contains($0.block) }
        refused.removeAll { $0.file === file && blocks.contains($0.block) }
    }

    func isWriting(_ blocks: Range<Int>, of file: File) -> Bool {
        writing.contains { $0.file === file && blocks.contains($0.block) }
    }

    /// Neighbours to write now, in the order of the file; nil where there is time for more of them to come.
    /// - Parameters:
    ///   - longest: so many blocks are written at once.
    ///   - isPressed: there is no time.
    mutating func next(now: Duration, longest: Int, isPressed: Bool) -> [Item]? {
        if !refused.isEmpty, now >= refusedUntil {
            waiting += refused
            refused = []
        }
        let oldest = waiting.min { $0.number < $1.number }
        let isDue = isPressed || (oldest.map { $0.number < urgentBelow || now - $0.since >= patience } ?? false)
        let found = runs(longest).first { run in
            isDue ? run.contains { $0.number == oldest!.number } : run.count == longest
        }
        guard let run = found else { return nil }
        let numbers = run.map(\.number)
        waiting.removeAll { numbers.contains($0.number) }
        writing = run
        return run
    }

    /// The run has ended. - Parameter refused: what of it the disk has not taken.
    mutating func ended(refused: [Item], now: Duration) {
        writing = []
        guard !refused.isEmpty else { return }
        self.refused += refused.map { item in
            var item = item
            item.wasRefused = true
            return item
        }
        refusedUntil = now + refusedTime
    }

    /// When there is something to do unless something comes; nil: never.
    var due: Duration? {
        let oldest = waiting.map(\.since).min().map { $0 + patience }
        return refused.isEmpty ? oldest : min(oldest ?? refusedUntil, refusedUntil)
    }

    /// What waits, as neighbours.
    private func runs(_ longest: Int) -> [[Item]] {
        let sorted = waiting.sorted {
            (ObjectIdentifier($0.file), $0.block, $0.number) < (ObjectIdentifier($1.file), $1.block, $1.number)
        }
        var runs: [[Item]] = []
        for item in sorted {
            if let last = runs.last?.last, last.file === item.file, last.block + 1 == item.block,
                runs[runs.count - 1].count < longest
            {
                runs[runs.count - 1].append(item)
            } else {
                runs.append([item])
            }
        }
        return runs
    }
}
