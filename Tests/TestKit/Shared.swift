import Synchronization

/// A value that a test and the threads of its servers have in common.
package final class Shared<Value: Sendable>: Sendable {
    private let state: Mutex<Value>

    package init(_ value: Value) { state = Mutex(value) }

    package var value: Value { state.withLock { $0 } }

    package func set(_ value: Value) { state.withLock { $0 = value } }

    /// In one step: a read and a write behind it would lose what another thread writes between them.
    package func change(_ body: (inout Value) -> Void) { state.withLock { body(&$0) } }
}
