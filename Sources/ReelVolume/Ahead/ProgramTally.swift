import ReelCore
import ReelThreads

/// What one program reads of the mount, and what is fetched for it.
final class ProgramTally: Sendable {
    private struct State {
        var files = 0
        var readBytes: Int64 = 0
        var fetchedBytes: Int64 = 0
        /// Early readahead of its files, which comes back when it reads on.
        var early: Int64 = 0
        var budget = SpeculationBudget(perMinute: SpeculationBudget.perMinute / 2)
        /// When its last files were begun.
        var begun: [Duration] = []
        /// What it read in a row of its last files, by the suffix of their names (`Ledger.headRun`).
        var runs: [String: [Int64]] = [:]
    }

    /// A program that begins as many files in a minute looks for something; a person does not play them.
    private static let scannersFiles = 8
    private static let scannersTime = Duration.seconds(60)
    /// This many files show what it reads of each. A run longer than `longestRun` is reading, and not a look.
    private static let tellingRuns = 3
    private static let longestRun: Int64 = 8 << 20
    /// A library has films, songs, subtitles, pictures.
    private static let mostSuffixes = 16

    let name: String
    private let state = Lock(State())

    init(_ name: String) { self.name = name }

    /// It opened another file, or reads what was opened for it.
    func reads() { state.withLock { $0.files += 1 } }

    /// It waits for bytes of another file, or is read ahead of there.
    func begins(now: Duration) {
        state.withLock { state in
            state.begun.append(now)
            if state.begun.count > Self.scannersFiles { state.begun.removeFirst() }
        }
    }

    /// Whether it looks into many files one after another.
    func isScanning(now: Duration) -> Bool {
        state.withLock { state in
            state.begun.count == Self.scannersFiles && now - state.begun[0] < Self.scannersTime
        }
    }

    /// It is done with a file. - Parameter bytes: that it read in a row from the beginning on.
    func ends(_ suffix: String, bytes: Int64) {
        state.withLock { state in
            let runs = state.runs[suffix] ?? []
            guard !runs.isEmpty || state.runs.count < Self.mostSuffixes else { return }
            state.runs[suffix] = runs.suffix(Self.scannersFiles - 1) + [bytes]
        }
    }

    /// What it reads in a row of each file with this suffix, by its last ones; 0 if they do not show it.
    func reach(_ suffix: String) -> Int64 {
        state.withLock { state in
            guard let runs = state.runs[suffix], runs.count >= Self.tellingRuns, let least = runs.min() else {
                return 0
            }
            return least <= Self.longestRun ? least : 0
        }
    }

    /// Bytes that it read, or that came for it.
    func add(read: Int64 = 0, fetched: Int64 = 0, early: Int64 = 0) {
        state.withLock { state in
            state.readBytes += read
            state.fetchedBytes += fetched
            state.early += early
        }
    }

    /// Like `SpeculationBudget.allowsEarly`: half of the mount's is one program's.
    func allowsEarly(now: Duration) -> Bool { state.withLock { $0.budget.allowsEarly($0.early, now: now) } }

    var status: VolumeStatus.Program {
        state.withLock { state in
            VolumeStatus.Program(
                name: name, files: state.files, readBytes: state.readBytes, fetchedBytes: state.fetchedBytes)
        }
    }
}

/// The programs that opened files of the mount, by name: the last ones, as any user may call a program anything.
final class ProgramTallies: Sendable {
    private struct State {
        var all: [String: (tally: ProgramTally, use: UInt64)] = [:]
        var uses: UInt64 = 0
    }

    private static let most = 64

    private let state = Lock(State())

    /// The tally of a program that opens or reads a file; one beyond the limit takes the place of the one unused for
    /// longest, whose open files keep their tally.
    subscript(name: String) -> ProgramTally {
        state.withLock { state in
            state.uses += 1
            let isKnown = state.all[name] != nil
            if !isKnown, state.all.count >= Self.most, let oldest = state.all.min(by: { $0.value.use < $1.value.use }) {
                state.all[oldest.key] = nil
            }
            let tally = state.all[name]?.tally ?? ProgramTally(name)
            state.all[name] = (tally, state.uses)
            return tally
        }
    }

    private var tallies: [ProgramTally] { state.withLock { $0.all.values.map(\.tally) } }

    /// Whether any looks into many files one after another.
    func areScanning(now: Duration) -> Bool { tallies.contains { $0.isScanning(now: now) } }

    /// The programs, those first for which most was fetched.
    var status: [VolumeStatus.Program] {
        tallies.map(\.status).sorted { ($0.fetchedBytes, $0.name) > ($1.fetchedBytes, $1.name) }
    }
}
