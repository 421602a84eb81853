import CLinux
import Glibc

/// A thread with a name that `ps -L` shows. Join or detach it exactly once.
///
/// It blocks all signals: one thread waits for them, and a write to a closed connection must not end the program by
/// SIGPIPE.
///
/// `@unchecked Sendable`: pthread_t is a plain number on Linux.
package struct Thread: @unchecked Sendable {
    /// For pthread_kill(3).
    package let handle: pthread_t
    #if DEBUG
        /// nil outside of a simulation. A handle alone may be another thread's by the time of a join.
        private let member: Simulation.Member?
    #endif

    private final class Work: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Starts a thread that runs `body`; nil where the system has no room for one more.
    /// - Parameter name: at most 15 bytes.
    package init?(_ name: String, _ body: @escaping @Sendable () -> Void) {
        #if DEBUG
            let simulation = Simulation.ofThisThread
            let adopted = simulation?.adopt(name, body)
            let (member, body) = (adopted?.0, adopted?.1 ?? body)
        #endif
        let work = Unmanaged.passRetained(Work(body))
        var (all, before) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        var handle = pthread_t()
        let code = pthread_create(
            &handle, nil,
            { argument in
                Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue().body()
                return nil
            }, work.toOpaque())
        guard code == 0 else {
            work.release()
            #if DEBUG
                if let member { simulation?.disown(member) }
            #endif
            return nil
        }
        #if DEBUG
            if let member { simulation?.started(member, handle) }
            self.member = member
        #endif
        reel_name_thread(handle, name)
        self.handle = handle
    }

    /// Names the calling thread; `pgrep` and `top` show the main thread's name for the process.
    package static func nameCurrent(_ name: String) { reel_name_thread(pthread_self(), name) }

    /// Waits until the thread has ended.
    package func join() {
        #if DEBUG
            if let member, let me = Simulation.current { return me.simulation.waitForEnd(of: member, me) }
        #endif
        pthread_join(handle, nil)
    }
    /// Lets the thread end by itself.
    package func detach() {
        #if DEBUG
            // The next thread joins it.
            if member != nil { return }
        #endif
        pthread_detach(handle)
    }
    /// Whether the caller runs on this thread.
    package var isCurrent: Bool { pthread_equal(pthread_self(), handle) != 0 }
}
