import ReelThreads
import Synchronization

/// One request of an `Origin`, made before it starts, so that its receiver and its owner know it from the beginning.
///
/// It knows which layer has the request, so that a call goes straight there. `cancel` and `promote` count from the
/// beginning on: a request that is cancelled before its start ends at its start.
package final class RequestHandle: Sendable, Hashable {
    /// A control holds its handle, and its layer holds the control until the request has ended.
    private struct Link {
        weak var control: (any RequestControl)?
    }

    private let link = Lock(Link())
    private let cancelled = Atomic(false)
    private let promoted = Atomic(false)
    private let reader = Atomic(LineRank.reader)
    /// The handle of the request that this one is made for, nil if there is none.
    private let original: RequestHandle?

    /// The handle of a request that has not started.
    package init() { original = nil }

    /// The handle of a request that is made for another one, and goes before others as that does.
    package init(for other: RequestHandle) { original = other.original ?? other }

    /// Sends all further calls there. The layer that does this looks at `isCancelled` afterwards: what comes later goes
    /// to it.
    package func connect(to control: any RequestControl) { link.withLock { $0.control = control } }

    private var control: (any RequestControl)? { link.withLock { $0.control } }

    /// Ends the request early: its receiver gets `ended(.cancelled)` unless it has ended already. A request that was
    /// not started yet ends so at its start. Never blocks.
    package func cancel() {
        cancelled.store(true, ordering: .relaxed)
        control?.cancel(self)
    }

    /// Makes the request a demanded one: if it stands in line, it goes with those from now on. Never blocks.
    package func promote() {
        promoted.store(true, ordering: .relaxed)
        control?.promote(self)
    }

    /// Lets the request go on whose receiver answers `.pause`; a receiver that is about to answer so counts. Never
    /// blocks.
    package func resume() { control?.resume(self) }

    /// `cancel` was called.
    package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }
    /// `promote` was called.
    package var isPromoted: Bool { promoted.load(ordering: .relaxed) }
    /// Who reads the file: a player, one that may be one, or neither (`reader`). The request goes by that before others
    /// (`LineShare`), and so do those that are made for it. It may change at any time.
    package var rank: LineRank {
        get { (original ?? self).reader.load(ordering: .relaxed) }
        set { (original ?? self).reader.store(newValue, ordering: .relaxed) }
    }

    /// Whether both name the same request.
    package static func == (a: RequestHandle, b: RequestHandle) -> Bool { a === b }
    /// By identity.
    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// Controls requests that are under way, for a layer. `RequestHandle` alone calls it, from any thread, once its own
/// mark is set. No call blocks, and none does anything to a request that has ended.
package protocol RequestControl: AnyObject, Sendable {
    /// See `RequestHandle.cancel`.
    func cancel(_ handle: RequestHandle)
    /// See `RequestHandle.promote`.
    func promote(_ handle: RequestHandle)
    /// See `RequestHandle.resume`.
    func resume(_ handle: RequestHandle)
}
