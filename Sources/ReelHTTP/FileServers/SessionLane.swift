import CCurl
import Glibc

/// A connection to an FTP server with the TLS session, if any, that belongs to it. One handle at a time uses it.
///
/// Many servers (ProFTPD, vsftpd and FileZilla by default) refuse a data connection that does not resume the session of
/// its control connection. libcurl keeps sessions for each handle, or by host for all of a share, and connections apart
/// from them: a handle could get the connection of one and the session of another. From 8.12 on it resumes the oldest
/// session that it has, so a lane is over with its first control connection.
///
/// Belongs to the transport's thread.
final class SessionLane {
    private let share: UnsafeMutableRawPointer
    private let sockets = LaneSockets()
    /// The greetings of its control connections.
    private var greetings = 0

    /// Whether the sessions in it belong to a control connection that has gone.
    var isOver: Bool { greetings > 1 || sockets.areClosed }

    /// nil: no memory.
    init?() {
        guard let share = curl_share_init() else { return nil }
        self.share = share
        reel_share_add(share, CURL_LOCK_DATA_SSL_SESSION)
        reel_share_add(share, CURL_LOCK_DATA_CONNECT)
    }

    deinit {
        sockets.leave()
        curl_share_cleanup(share)
    }

    /// The handle must not outlive the lane.
    func attach(to easy: borrowing EasyHandle) {
        easy.set(CURLOPT_SHARE, context: share)
        reel_set_close_callback(easy.pointer) { context, socket in
            context.map { Unmanaged<LaneSockets>.fromOpaque($0).takeUnretainedValue() }?.closed(socket)
            return close(socket)
        }
        easy.set(CURLOPT_CLOSESOCKETDATA, context: Unmanaged.passUnretained(sockets).toOpaque())
    }

    func opened(_ socket: curl_socket_t) { sockets.opened(socket) }
    func greeted() { greetings += 1 }
}

/// The sockets of a lane's connections. libcurl may close some when the lane has gone: it shuts a connection down
/// beside others (`Curl_cshutdn_add` in lib/cshutdn.c).
private final class LaneSockets {
    private var open: Set<curl_socket_t> = []
    private var wasOpened = false
    /// Itself, where it outlives its lane.
    private var own: LaneSockets?

    /// Whether there were some.
    var areClosed: Bool { wasOpened && open.isEmpty }

    func opened(_ socket: curl_socket_t) {
        wasOpened = true
        open.insert(socket)
    }

    func closed(_ socket: curl_socket_t) {
        open.remove(socket)
        if open.isEmpty { own = nil }
    }

    /// Lives until they are closed.
    func leave() {
        // libcurl says goodbye to the server, and would wait two minutes for the answer of a silent one.
        for socket in open { shutdown(socket, Int32(SHUT_RD)) }
        if !open.isEmpty { own = self }
    }
}
