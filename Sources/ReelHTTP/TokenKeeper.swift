import ReelCore

/// The bearer token of a mount, and the one run of the command that prints it (`TransportConfiguration.tokenSource`).
///
///     none ──request──▶ awaited ──printed──▶ present ──refused with 401──▶ awaited
///                          └──failed──▶ failed ──a second later──▶ none
///
/// Belongs to the transport's thread.
final class TokenKeeper {
    enum State { case unneeded, present, awaited, failed }

    private let source: (@Sendable (_ deliver: @escaping @Sendable (String?) -> Void) -> Void)?
    private let mailbox: Mailbox
    /// The serial number tells the token of one run from that of the next.
    private(set) var current: (text: String, serial: Int)?
    private var serial = 0
    /// Tokens refused since the last one that was taken.
    private var refusals = 0
    /// When the last run ended.
    private var ended: ContinuousClock.Instant?
    private var isRunning = false
    private var held: [RequestHandle] = []

    /// Where the token of a second run is refused as well, that of a third one would not be better so soon.
    private static let renewalPause = Duration.seconds(10)
    /// Requests that fail keep no command running all the time.
    private static let failurePause = Duration.seconds(1)

    init(_ source: (@Sendable (_ deliver: @escaping @Sendable (String?) -> Void) -> Void)?, _ mailbox: Mailbox) {
        self.source = source
        self.mailbox = mailbox
    }

    /// Whether the request can leave as it is. A probe only finds out whether the origin answers.
    func state(for transfer: Transfer) -> State {
        guard source != nil, transfer.probe == nil, transfer.disclosure.secrets else { return .unneeded }
        if current != nil { return .present }
        if !isRunning, let ended, .now - ended < Self.failurePause { return .failed }
        return .awaited
    }

    /// Starts the command unless it runs; `take` returns the request when it has ended.
    func hold(_ id: RequestHandle) {
        held.append(id)
        guard !isRunning, let source else { return }
        isRunning = true
        source { [mailbox] token in mailbox.put { $0.take(token: token) } }
    }

    /// - Returns: the requests that were held.
    func take(_ token: String?) -> [RequestHandle] {
        isRunning = false
        ended = .now
        serial += 1
        current = token.flatMap { isHeaderValue($0) ? ($0, serial) : nil }
        defer { held = [] }
        return held
    }

    /// An answer other than 401 came to a request with a token of that serial number.
    func prove(_ serial: Int) {
        if current?.serial == serial { refusals = 0 }
    }

    /// The origin has refused a token. - Returns: whether there is another one, or there may be.
    func isReplaceable(_ refused: Int) -> Bool {
        guard let current, current.serial == refused else { return true }
        guard refusals == 0 || ended.map({ .now - $0 > Self.renewalPause }) ?? true else { return false }
        refusals += 1
        self.current = nil
        // A refused token is replaced at once; only a failure is not repeated at once.
        ended = nil
        return true
    }
}
