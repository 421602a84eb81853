import ReelCore

/// A body of an FTP server that has stopped between two requests.
///
/// FTP knows where a body begins and not where it ends: to cut one off costs the control connection, and a new one two
/// connections and ten commands. So a request takes its range out of a body that runs to the end of the file, and the
/// next request, which mostly begins there, goes on with it. Meanwhile the server waits, as curl takes nothing.
final class KeptBody {
    fileprivate let url: ResourceURL
    fileprivate let position: Int64
    fileprivate let facts: FileFacts
    fileprivate let surplus: [UInt8]
    fileprivate let keptAt = ContinuousClock.now
    /// nil: curl is done with it, and its rest is the surplus.
    fileprivate var easy: EasyHandle?

    init(
        _ easy: consuming EasyHandle?, _ url: ResourceURL, at position: Int64, _ facts: FileFacts, _ surplus: [UInt8]
    ) {
        (self.url, self.position, self.facts, self.surplus) = (url, position, facts, surplus)
        self.easy = consume easy
    }

    /// Makes it the body of a request. Its surplus is still to be delivered.
    func move(to transfer: Transfer) {
        easy?.context.transfer = transfer
        transfer.easy = easy.take()
        transfer.answer.file.takeOver(facts, surplus)
    }
}

/// The bodies that wait for a request. Belongs to the transport's thread.
struct KeptBodies {
    /// Connections to one FTP server, those of running requests included, as far as bodies are kept for them: servers
    /// for the public allow few.
    static let mostOfHost = 3
    /// A player comes back within seconds. Servers end a connection that takes nothing after a minute or more.
    static let longest = Duration.seconds(45)

    /// The longest kept first.
    private var all: [KeptBody] = []

    /// When the first is kept too long, nil if there is none.
    var end: ContinuousClock.Instant? { all.first.map { $0.keptAt + Self.longest } }

    mutating func keep(_ body: KeptBody) { all.append(body) }

    /// The body that goes on at that place of the file.
    mutating func take(_ url: ResourceURL, at position: Int64) -> KeptBody? {
        let index = all.lastIndex { body in
            body.position == position && body.url == url && body.url.credentials == url.credentials
        }
        return index.map { all.remove(at: $0) }
    }

    /// Takes out the bodies that are kept no longer; their connections close.
    /// - Parameters:
    ///   - origin: nil: all origins.
    ///   - most: bodies that stay.
    mutating func drop(of origin: String? = nil, most: Int, _ remove: (UnsafeMutableRawPointer?) -> Void) {
        let some = all.filter { origin == nil || $0.url.origin == origin }
        for body in some.dropLast(max(0, most)) { drop(body, remove) }
    }

    mutating func dropOld(_ remove: (UnsafeMutableRawPointer?) -> Void) {
        let now = ContinuousClock.now
        for body in all.filter({ $0.keptAt + Self.longest <= now }) { drop(body, remove) }
    }

    /// curl is done with one: its rest is there, or will not come.
    mutating func ended(_ context: HandleContext, _ remove: (UnsafeMutableRawPointer?) -> Void) {
        guard let body = all.first(where: { $0.easy?.context === context }) else { return }
        guard body.position + Int64(body.surplus.count) == body.facts.length else { return drop(body, remove) }
        remove(body.easy?.pointer)
        // Its connection is free for others.
        body.easy = nil
    }

    private mutating func drop(_ body: KeptBody, _ remove: (UnsafeMutableRawPointer?) -> Void) {
        remove(body.easy?.pointer)
        all.removeAll { $0 === body }
    }
}
