import ReelCore
import ReelSources
import ReelThreads

/// Asks for the first bytes of files, many at once. The lengths in the answers are remembered, so that they are not
/// asked for again.
final class Beginnings: Sendable {
    private struct State {
        var waiting: ArraySlice<ResourceURL>
        var running = 0
        var found: [String: FileBeginning] = [:]
        var isDone = false
    }

    /// For all of a listing: it appears without those that come later.
    static let limit = Duration.seconds(10)
    /// Requests at once, as many as browsers make.
    private static let mostAtOnce = 6

    private let state: Lock<State>
    private let services: Services
    private let end: Duration
    private let completion: @Sendable ([String: FileBeginning]) -> Void

    private init(
        _ urls: [ResourceURL], _ limit: Duration, _ services: Services,
        _ completion: @escaping @Sendable ([String: FileBeginning]) -> Void
    ) {
        state = Lock(State(waiting: urls[...]))
        self.services = services
        end = now() + limit
        self.completion = completion
    }

    /// - Parameter completion: gets those that came, by URL; called once.
    static func ask(
        for urls: [ResourceURL], within limit: Duration, _ services: Services,
        _ completion: @escaping @Sendable ([String: FileBeginning]) -> Void
    ) {
        let all = Beginnings(urls, limit, services, completion)
        // One that ends starts the next.
        for _ in 0..<min(mostAtOnce, max(1, urls.count)) { all.next(after: false) }
    }

    private func next(after another: Bool) {
        let isOver = services.isOver(at: end)()
        let (next, found) = state.withLock { state -> (ResourceURL?, [String: FileBeginning]?) in
            if another { state.running -= 1 }
            if isOver { state.waiting = [] }
            if let url = state.waiting.popFirst() {
                state.running += 1
                return (url, nil)
            }
            guard state.running == 0, !state.isDone else { return (nil, nil) }
            state.isDone = true
            return (nil, state.found)
        }
        if let found { return completion(found) }
        guard let url = next else { return }
        let began = { @Sendable [self] (came: FileBeginning) in state.withLock { $0.found[url.text] = came } }
        InformationRequest.start(url, limit: end - now(), services, began: began) { [self] outcome in
            if case .information(let information) = outcome, services.store.information(for: url.text) == nil {
                services.store.remember(information, for: url.text, checkedAt: wallClock())
            }
            self.next(after: true)
        }
    }
}
