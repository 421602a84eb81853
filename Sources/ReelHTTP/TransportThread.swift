import Glibc

/// Runs `body` on a new thread, to be joined or detached; nil where the system gives none.
///
/// All signals are blocked there: they are the main thread's, and with CURLOPT_NOSIGNAL curl leaves SIGPIPE to its
/// caller (a TLS connection that the origin closes would end the program).
func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(ThreadBody(body))
    guard pthread_create(&thread, nil, runThreadBody, box.toOpaque()) == 0 else {
        box.release()
        return nil
    }
    return thread
}

private final class ThreadBody: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

private func runThreadBody(_ box: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    Unmanaged<ThreadBody>.fromOpaque(box!).takeRetainedValue().body()
    return nil
}
