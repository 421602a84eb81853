import ReelCore

/// A secret of a mount that expires, and the one run of what renews it: the bearer token, by a command
/// (`TransportConfiguration.tokenSource`), or the keys of an S3 service, by their file (`keySource`).
///
///     none ──request──▶ awaited ──printed──▶ present ──refused──▶ awaited
///                          └──failed──▶ failed ──a second later──▶ none
///
/// Belongs to the transport's thread.
final class TokenKeeper<Secret: Sendable>: SecretKeeper {
    typealias Source = @Sendable (_ deliver: @escaping @Sendable (Secret?) -> Void) -> Void

    private let source: Source?
    private let deliver: @Sendable (Secret?) -> Void
    /// The serial number distinguishes the token of one run from that of the next.
    private(set) var current: (secret: Secret, serial: Int)?
    private var serial = 0
    /// Tokens refused since the last one that was taken.
    private var refusals = 0
    /// When the last run ended.
    private var ended: ContinuousClock.Instant?
    private var isRunning = false
    private var held: [RequestHandle] = []

    /// - Parameters:
    ///   - first: what is known without a run.
    ///   - source: starts a run, nil if `first` is never replaced.
    ///   - deliver: gets the result of a run, on any thread, and calls `take` on the transport's.
    init(first: Secret? = nil, _ source: Source?, deliver: @escaping @Sendable (Secret?) -> Void) {
        current = first.map { ($0, 0) }
        self.source = source
        self.deliver = deliver
    }

    /// A probe only finds out whether the origin answers.
    func state(for transfer: Transfer) -> TokenState {
        guard source != nil, transfer.probe == nil, transfer.disclosure.secrets else { return .unneeded }
        if current != nil { return .present }
        if !isRunning, let ended, .now - ended < failurePause { return .failed }
        return .awaited
    }

    /// `take` returns the request when the run has ended.
    func hold(_ id: RequestHandle) {
        held.append(id)
        guard !isRunning, let source else { return }
        isRunning = true
        source(deliver)
    }

    /// - Returns: the requests that were held.
    func take(_ secret: Secret?) -> [RequestHandle] {
        isRunning = false
        ended = .now
        serial += 1
        current = secret.map { ($0, serial) }
        defer { held = [] }
        return held
    }

    /// An answer other than 401 came to a request with a token of that serial number.
    func prove(_ serial: Int) {
        if current?.serial == serial { refusals = 0 }
    }

    /// The origin has refused a token. - Returns: whether there is another one, or there may be.
    func isReplaceable(_ refused: Int) -> Bool {
        guard source != nil else { return false }
        guard let current, current.serial == refused else { return true }
        guard refusals == 0 || ended.map({ .now - $0 > renewalPause }) ?? true else { return false }
        refusals += 1
        self.current = nil
        // A refused token is replaced at once; only a failure is not repeated at once.
        ended = nil
        return true
    }
}

/// What renews a secret.
protocol SecretKeeper: AnyObject {
    /// Whether the request can leave as it is.
    func state(for transfer: Transfer) -> TokenState

    /// Keeps the request until a run has ended, which it starts where there is none.
    func hold(_ id: RequestHandle)
}

/// Whether a request has the secret that it needs.
enum TokenState { case unneeded, present, awaited, failed }

/// Where the token of a second run is refused as well, that of a third one would not be better so soon.
private let renewalPause = Duration.seconds(10)
/// Requests that fail keep no command running all the time.
private let failurePause = Duration.seconds(1)
