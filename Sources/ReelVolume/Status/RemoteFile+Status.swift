import ReelCore
import ReelThreads

/// What `status` shows of an open file.
extension RemoteFile {
    /// Adds what only an open file knows.
    func tell(_ shown: inout VolumeStatus.File) {
        let moment = now()
        let (program, readers, coming, stalls, waitsSince) = ask {
            ($0.reader.program, $0.ledger.readers(now: moment), $0.ledger.coming, $0.stalls, $0.ledger.waitsSince)
        }
        shown.program = program?.name
        shown.waiting = waitsSince.map { Int64(max(.zero, moment - $0) / .milliseconds(1)) }
        shown.stalls = stalls.count
        shown.lastStall = stalls.last.map { stall in
            VolumeStatus.Stall(
                fault: stall.fault.rawValue, milliseconds: Int64(stall.length / .milliseconds(1)),
                when: wallClock() - Int64((moment - stall.end) / .seconds(1)))
        }
        guard shown.openHandles > 0 else { return }
        shown.map = FileMap.text(object.present, coming: coming)
        shown.readers = readers.map { reader in
            VolumeStatus.Reader(
                position: reader.position, ahead: reader.ahead, rate: reader.rate.map { bytes($0) },
                isPlayer: reader.isPlayer)
        }
        shown.seconds = seconds
        shown.neededRate = needed(shown.seconds, readers)
    }

    /// The rate that a player needs, in bytes a second, nil if no player reads the file, or it is not known. Waits for
    /// no disk.
    var playersNeed: Int64? {
        let moment = now()
        let (readers, seconds) = ask { state in
            let hasPlayer = state.ledger.openHandles > 0 && state.ledger.hasPlayer(now: moment)
            return (hasPlayer ? state.ledger.readers(now: moment) : [], state.layout.seconds)
        }
        return readers.isEmpty ? nil : needed(seconds, readers)
    }

    private func needed(_ seconds: Double?, _ readers: [Ledger.Reader]) -> Int64? {
        let player = readers.first { $0.isPlayer } ?? readers.first
        return (seconds.map { Double(length) / $0 } ?? player?.rate).map { bytes($0) }
    }
}

/// A rate may be measured over no time at all.
private func bytes(_ rate: Double) -> Int64 { rate.isFinite ? Int64(min(max(0, rate), 1e15)) : 0 }
