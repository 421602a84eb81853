import ReelCore

/// A body of an FTP server that has stopped between two requests.
///
/// FTP knows where a body begins and not where it ends: to cut one off costs the control connection, and a new one two
/// connections and ten commands. So a request takes its range out of a body that runs to the end of the file, and the
/// next request, which mostly begins there, goes on with it. Meanwhile the server waits, as curl takes nothing.
///
/// Belongs to the transport's thread.
final class KeptBody {
    /// Connections to one FTP server, those of running requests included, as far as bodies are kept for them: servers
    /// for the public allow few.
    static let mostOfHost = 3
    /// A player comes back within seconds. Servers end a connection that takes nothing after a minute or more.
    private static let longest = Duration.seconds(45)

    let url: ResourceURL
    /// When it is kept too long.
    let end = ContinuousClock.now + longest
    private let position: Int64
    private let facts: FileFacts
    private var easy: EasyHandle?

    init(_ easy: consuming EasyHandle, _ url: ResourceURL, at position: Int64, _ facts: FileFacts) {
        (self.url, self.position, self.facts) = (url, position, facts)
        easy.context.transfer = nil
        self.easy = consume easy
    }

    /// nil once a request has taken it.
    var handle: UnsafeMutableRawPointer? { easy?.pointer }

    /// Whether it goes on where the range of the request begins.
    func fits(_ request: OriginRequest) -> Bool {
        position == request.range?.lower && request.isForSameFile(as: url)
    }

    /// Whether that handle brings it.
    func isOf(_ context: HandleContext) -> Bool { easy?.context === context }

    /// Makes it the body of a request. curl still has to go on.
    func move(to transfer: Transfer) {
        easy?.context.transfer = transfer
        transfer.easy = easy.take()
        transfer.answer.file.begin(asksHead: false, facts)
    }
}

extension OriginRequest {
    /// Whether it is for the file of that URL, with the same login.
    func isForSameFile(as other: ResourceURL) -> Bool { url == other && url.credentials == other.credentials }
}
