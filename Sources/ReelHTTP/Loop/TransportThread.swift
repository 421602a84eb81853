import CCurl
import ReelThreads

/// libcurl's multi handle, with the one call that every thread may make. All others take a `TransportThread`.
final class MultiHandle: Sendable {
    /// "This function can be called from any thread" (curl_multi_wakeup(3)) holds for that one function alone. Freed
    /// with the last reference, so that no thread wakes a handle that is gone.
    nonisolated(unsafe) fileprivate let pointer: UnsafeMutableRawPointer

    init() throws(TransportError) {
        guard isCurlReady, let pointer = curl_multi_init() else { throw .noResources }
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }

    func wakeUp() { curl_multi_wakeup(pointer) }
}

/// curl_global_init(3), once a process.
private let isCurlReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK

/// Proof that code runs on the transport's thread, and the way to libcurl from there: `start` makes the only one, on
/// the thread that it starts, and the compiler allows no copy of it and no other thread.
struct TransportThread: ~Copyable {
    private let multi: MultiHandle

    private init(_ multi: MultiHandle) {
        self.multi = multi
        // Idle connections to keep; curl's own limit follows the number of transfers and closes them too early.
        reel_multi_set_long(multi.pointer, CURLMOPT_MAXCONNECTS, 64)
        reel_multi_set_long(multi.pointer, CURLMOPT_PIPELINING, Int(CURLPIPE_NOTHING))
    }

    /// Starts the thread. - Returns: nil where the system has no thread to spare.
    static func start(
        _ multi: MultiHandle, _ body: @escaping @Sendable (consuming TransportThread) -> Void
    ) -> Thread? {
        Thread("origin") { body(TransportThread(multi)) }
    }

    /// Gives a handle to curl. - Returns: false where there is no memory for it, or no handle.
    func add(_ easy: UnsafeMutableRawPointer?) -> Bool { curl_multi_add_handle(multi.pointer, easy) == CURLM_OK }

    /// Takes a handle back; not from inside of curl's calls (curl_multi_remove_handle(3)).
    func remove(_ easy: UnsafeMutableRawPointer?) { curl_multi_remove_handle(multi.pointer, easy) }

    /// Lets curl send and receive what it can, and calls the transfers' callbacks.
    func perform() {
        var running: Int32 = 0
        curl_multi_perform(multi.pointer, &running)
    }

    /// Waits for sockets, curl's own timers, `wakeUp`, and no longer than `time`.
    func wait(atMost time: Duration) {
        // Rounded up: a wait that ends a little too early is a round for nothing.
        let milliseconds = 1 + Int32(min(max(time / .milliseconds(1), 0), 60_000))
        curl_multi_poll(multi.pointer, nil, 0, milliseconds, nil)
    }

    /// The next handle that curl is done with, and its result.
    func nextEnd() -> (context: HandleContext, result: CURLcode)? {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi.pointer, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let context = reel_private(easy)
            else { continue }
            return (Unmanaged<HandleContext>.fromOpaque(context).takeUnretainedValue(), reel_message_result(message))
        }
        return nil
    }
}

@available(*, unavailable) extension TransportThread: Sendable {}
