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
    /// The sockets of its connections.
    private var sockets: Set<curl_socket_t> = []
    /// The greetings of its control connections.
    private var greetings = 0

    /// Whether the sessions in it belong to a control connection that has gone.
    var isOver: Bool { greetings > 1 || greetings == 1 && sockets.isEmpty }

    /// nil: no memory.
    init?() {
        guard let share = curl_share_init() else { return nil }
        self.share = share
        reel_share_add(share, CURL_LOCK_DATA_SSL_SESSION)
        reel_share_add(share, CURL_LOCK_DATA_CONNECT)
    }

    deinit {
        // libcurl says goodbye to the server, and would wait two minutes for the answer of a silent one.
        for socket in sockets { shutdown(socket, Int32(SHUT_RD)) }
        curl_share_cleanup(share)
    }

    /// The handle must not outlive the lane.
    func attach(to easy: borrowing EasyHandle) {
        easy.set(CURLOPT_SHARE, context: share)
        reel_set_close_callback(easy.pointer) { context, socket in
            context.map { Unmanaged<SessionLane>.fromOpaque($0).takeUnretainedValue() }?.sockets.remove(socket)
            return close(socket)
        }
        easy.set(CURLOPT_CLOSESOCKETDATA, context: Unmanaged.passUnretained(self).toOpaque())
    }

    func opened(_ socket: curl_socket_t) { sockets.insert(socket) }
    func greeted() { greetings += 1 }
}
