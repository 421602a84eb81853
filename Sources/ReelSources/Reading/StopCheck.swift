/// Ends the reading of a document before its end: its deadline has passed, or the mount ends.
struct StopCheck {
    private let isOver: () -> Bool
    private var steps: UInt32 = 0
    /// Once true it stays so.
    private(set) var isStopped = false

    /// - Parameter isOver: asked every so often, on the thread that reads.
    init(_ isOver: @escaping () -> Bool) { self.isOver = isOver }

    /// Called once for each tag, line or item. A step takes microseconds, so that 256 of them end soon enough.
    mutating func step() -> Bool {
        steps &+= 1
        if steps & 0xFF == 0, isOver() { isStopped = true }
        return isStopped
    }
}
