import ReelThreads
import Testing

@testable import ReelCore

@Suite struct RequestHandleTests {
    /// Writes down what it is asked.
    private final class Control: RequestControl {
        private let calls = Lock<[String]>([])

        var asked: [String] { calls.withLock { $0 } }

        private func add(_ call: String) { calls.withLock { $0.append(call) } }
        func cancel(_ handle: RequestHandle) { add("cancel \(handle.isCancelled)") }
        func promote(_ handle: RequestHandle) { add("promote \(handle.isPromoted)") }
        func resume(_ handle: RequestHandle) { add("resume") }
    }

    @Test func aCallGoesToTheLayerThatHasTheRequestAndAMarkIsThereBefore() {
        let (handle, first, second) = (RequestHandle(), Control(), Control())
        handle.connect(to: first)
        handle.resume()
        handle.promote()
        handle.connect(to: second)
        handle.resume()
        handle.cancel()
        #expect(first.asked == ["resume", "promote true"])
        #expect(second.asked == ["resume", "cancel true"])
    }

    @Test func whatIsCalledBeforeALayerHasTheRequestIsAMark() {
        let (handle, control) = (RequestHandle(), Control())
        handle.cancel()
        handle.promote()
        handle.connect(to: control)
        #expect(handle.isCancelled && handle.isPromoted)
        #expect(control.asked.isEmpty)
    }

    @Test func aHandleKeepsNoLayerAlive() {
        let handle = RequestHandle()
        weak var gone: Control?
        do {
            let control = Control()
            gone = control
            handle.connect(to: control)
        }
        #expect(gone == nil)
        handle.resume()
    }

    @Test func aRequestThatIsMadeForAnotherGoesBeforeOthersAsThatDoes() {
        let handle = RequestHandle()
        let part = RequestHandle(for: RequestHandle(for: handle))
        #expect(part.rank == .reader)
        handle.rank = .player
        #expect(part.rank == .player)
        handle.cancel()
        #expect(!part.isCancelled)
    }
}
