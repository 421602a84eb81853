import ReelCore
import ReelFilesystem
import ReelThreads

/// Notifies the kernel when programs begin to look into many files one after another, and when they have ended.
final class ScanWatch: Ticking {
    private let programs: ProgramTallies
    /// The kernel that knows of the scan, nil while there is none.
    private let told = Lock<(any KernelCache)?>(nil)

    init(_ programs: ProgramTallies) { self.programs = programs }

    /// A program has begun to read another file. - Parameter kernel: nil before the mount.
    func look(_ kernel: (any KernelCache)?, _ ticker: Ticker, now: Duration) {
        guard let kernel, programs.areScanning(now: now) else { return }
        let isNews = told.withLock { told in
            defer { told = told ?? kernel }
            return told == nil
        }
        guard isNews else { return }
        kernel.setScanned(true)
        ticker.add(self)
    }

    func tick(_ now: Duration) -> Bool {
        if programs.areScanning(now: now) { return true }
        let kernel = told.withLock { told in
            defer { told = nil }
            return told
        }
        kernel?.setScanned(false)
        return false
    }
}
