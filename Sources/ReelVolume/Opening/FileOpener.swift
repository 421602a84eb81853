import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// Opens files: finds out which version of a file each open gets.
final class FileOpener: Sendable {
    /// Seconds for which a confirmation of the origin holds: programs open a file several times in a row.
    private static let freshFor: Int64 = 5
    /// An open of remembered bytes waits this long for a confirmation, then plays the bytes that are there.
    private static let confirmationLimit = Duration.seconds(2)
    /// The answer "no such thing" is believed when it comes a second time after so long.
    private static let secondLook = Duration.seconds(5)

    private let tree: Tree
    private let files: FileTable
    private let prebuffer: Prebuffer
    private let services: Services
    /// When the origin first said "no such thing" of a file, by URL (on the clock of `now()`).
    private let missing = Lock<[String: Duration]>([:])

    init(_ tree: Tree, _ files: FileTable, _ prebuffer: Prebuffer, _ services: Services) {
        self.tree = tree
        self.files = files
        self.prebuffer = prebuffer
        self.services = services
    }

    /// - Parameters:
    ///   - thread: of the program that opens it, nil if it is not known.
    ///   - isAhead: for a command: no program reads it, its requests go after those that callers wait for, and another
    ///     item of a queue stays the next.
    func open(
        _ node: Node, by thread: Int32? = nil, isAhead: Bool = false,
        _ completion: @escaping Completion<any FileHandle>
    ) {
        if !isAhead { prebuffer.opened(node) }
        let program = thread.flatMap { programName(ofThread: $0) }
        open(node, for: program, isDemanded: !isAhead, telling(program, completion))
    }

    private func open(
        _ node: Node, for program: String?, isDemanded: Bool, _ completion: @escaping Completion<any FileHandle>
    ) {
        if let growing = node.growing, files.reopen(growing) {
            if growing.isGrowing { return completion(.success(OpenFile(node, growing, wantsDirectIO: true))) }
            files.close(growing)
        }
        let (demand, isFirst) = node.open(completion)
        if isDemanded { _ = demand.wait(program) }
        guard isFirst else { return }
        decide(node, until: now() + services.options.timeout) { [self] result in
            for (index, completion) in node.opened().enumerated() {
                // One handle more of a file that was just opened, unless the first one is closed and it has left.
                if index > 0, case .success(let file) = result, !files.reopen(file) {
                    open(node, for: demand.program, isDemanded: demand.isDemanded, completion)
                } else {
                    completion(result.map { opened(node, $0) })
                }
            }
        }
    }

    /// Gives the handle of an open the name of the program that it is for.
    private func telling(
        _ program: String?, _ completion: @escaping Completion<any FileHandle>
    ) -> Completion<any FileHandle> {
        guard let program else { return completion }
        return { result in
            if case .success(let handle) = result { (handle as! OpenFile).opened(by: program) }
            completion(result)
        }
    }

    /// Opens the version that is remembered, if all of it is cached. Nothing is asked for.
    func openCached(_ node: Node, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        let completion = telling(thread.flatMap { programName(ofThread: $0) }, completion)
        guard let url = node.url, !node.isSuperseded else { return completion(.failure(.stale)) }
        guard let known = services.store.information(for: url.text)?.information, known.length != nil else {
            return completion(.failure(.offline))
        }
        guard tell(node, known) else { return completion(.failure(.stale)) }
        files.open(url, known) { [files] result in
            completion(
                result.flatMap { file in
                    if file.isComplete {
                        let handle = OpenFile(node, file, wantsDirectIO: false, isCachedOnly: true)
                        file.isReadUncounted()
                        file.opened(handle)
                        return .success(handle)
                    }
                    files.close(file)
                    return .failure(.offline)
                })
        }
    }

    /// Opens the version that is remembered for a handle that an earlier process had. Only missing bytes are asked for;
    /// where no version is remembered, as `open`.
    func reopen(_ node: Node, _ completion: @escaping Completion<any FileHandle>) {
        guard let url = node.url, let known = services.store.information(for: url.text)?.information,
            known.length != nil
        else { return open(node, completion) }
        // The kernel looks the name up again: what is remembered is no reason to correct the listing.
        let isSame = node.listed.length ?? known.length == known.length && node.take(known)
        // The caller compares the version with that of the earlier handle.
        guard !node.isSuperseded, isSame || services.options.growing && node.begin(grown: known) else {
            return completion(.failure(.stale))
        }
        prebuffer.opened(node)
        files.open(url, known) { [self] result in
            if case .success(let file) = result { file.isReadUncounted() }
            completion(result.map { opened(node, $0) })
        }
    }

    /// Ends a handle. - Parameter isAhead: of a command, which plays nothing.
    func close(_ file: OpenFile, isAhead: Bool = false) {
        file.settleOffer()
        if let line = file.cacheReads?.record(of: file.remote.url) { services.upstream.requests.write(line) }
        let isPlayed = file.remote.isPlayed
        file.remote.closed(file)
        files.close(file.remote)
        if !isAhead, file.remote.programHandles == 0 { prebuffer.closed(file.node, file.remote, isPlayed: isPlayed) }
        if file.isHeld { prebuffer.released(file.node) }
    }

    private func opened(_ node: Node, _ file: RemoteFile) -> any FileHandle {
        // The kernel may read a complete file without a word to the volume.
        let handle = OpenFile(
            node, file, wantsDirectIO: file.isOpenEnded || file.isLive,
            isHeld: file.isComplete && prebuffer.holds(node))
        file.opened(handle)
        return handle
    }

    /// - Parameter end: of all that the open asks for, on the clock of `now()`.
    private func decide(_ node: Node, until end: Duration, _ completion: @escaping Completion<RemoteFile>) {
        guard let url = node.url else { return completion(.failure(.failed)) }
        if node.isSuperseded { return completion(.failure(.stale)) }
        guard let remembered = services.store.information(for: url.text), remembered.information.length != nil else {
            return openElsewhere(node, url, until: end, completion)
        }
        // The source has not confirmed what a mirror answered.
        let isOfMirror = remembered.information.validator.mirror != 0
        // A clock that was set back makes nothing fresh.
        let isOutdated = services.options.growing && node.listed.length ?? 0 > remembered.information.length ?? 0
        let isFresh =
            !isOfMirror && !isOutdated && (0...Self.freshFor).contains(wallClock() - remembered.checkedAt)
        if isFresh || !services.transport.isWorthAsking(url) {
            return openUnconfirmed(node, url, remembered.information, until: end, completion)
        }
        let limit = min(Self.confirmationLimit, timeLeft(until: end))
        let isDoubted = isOfMirror || remembered.checkedAt == Services.doubted
        InformationRequest.start(
            url, known: remembered.information, isDoubted: isDoubted, demand: node.openDemand, limit: limit, services
        ) { [self] outcome in
            if Self.isOtherAnswer(outcome.failure) { missing.withLock { $0[url.text] = nil } }
            switch outcome {
            case .unchanged:
                openVersion(node, url, files.confirm(remembered.information, of: url), until: end, completion)
            case .information(let new):
                files.settle(remembered.information, new, of: url, until: end) { [self] in
                    openVersion(node, url, $0, until: end, completion)
                }
            case .failure(let failure):
                switch VolumeError(failure) {
                // A resolver, or a token command, that needs the network gives nothing without it.
                case .accessDenied where failure != .unresolved && failure != .noLogin:
                    completion(.failure(.accessDenied))
                case .stale where isMissing(url): completion(.failure(.stale))
                default:
                    // Away, unwell or gone for a moment: remembered bytes play, a read of missing ones fails.
                    services.logger.info("\(url): not confirmed: \(failure)")
                    let present = files.present(remembered.information, of: url)
                    openUnconfirmed(node, url, present, until: end, completion)
                }
            }
        }
    }

    /// Opens the remembered version. If nothing of it is cached and there are mirrors, the first bytes decide the
    /// version, as a mirror has one of its own.
    private func openUnconfirmed(
        _ node: Node, _ url: ResourceURL, _ known: ContentInformation, until end: Duration,
        _ completion: @escaping Completion<RemoteFile>
    ) {
        // Opens that still wait when the volume ends open nothing.
        if services.ticker.isOver { return completion(.failure(.timedOut)) }
        let upstream = services.upstream
        guard upstream.mirrors?.areSome == true, known.validator.mirror == 0, upstream.joined(url) == nil,
            node.listed.length ?? known.length == known.length, upstream.cachedBlock(of: url, known) == nil
        else { return openVersion(node, url, known, until: end, completion) }
        firstOpen(node, url, until: end) { [self] result in
            switch result {
            case .success, .failure(.stale): completion(result)
            case .failure: openVersion(node, url, known, until: end, completion)
            }
        }
    }

    /// The first open at this URL, of a file whose bytes may have come from another.
    private func openElsewhere(
        _ node: Node, _ url: ResourceURL, until end: Duration, _ completion: @escaping Completion<RemoteFile>
    ) {
        let isKnown = files.recognise(url, length: node.listed.length, within: timeLeft(until: end)) {
            [self] result in
            switch result {
            case .success(let information): openVersion(node, url, information, until: end, completion)
            case .failure(let failure): fail(url, failure, completion)
            }
        }
        if isKnown { return }
        if url.fileProtocol != nil, node.listed.length == 0 { return openEmpty(node, url, until: end, completion) }
        firstOpen(node, url, until: end, completion)
    }

    /// The first open of a file that a file server lists as empty. Its length alone is asked for: a body of no bytes
    /// costs FTP a connection.
    private func openEmpty(
        _ node: Node, _ url: ResourceURL, until end: Duration, _ completion: @escaping Completion<RemoteFile>
    ) {
        InformationRequest.start(url, demand: node.openDemand, limit: timeLeft(until: end), services) {
            [self] outcome in
            switch outcome {
            case .information(let information) where information.length != nil:
                openVersion(node, url, files.learn(information, of: url), until: end, completion)
            case .information, .unchanged: firstOpen(node, url, until: end, completion)
            case .failure(let failure): fail(url, failure, completion)
            }
        }
    }

    private func fail(_ url: ResourceURL, _ failure: OriginFailure, _ completion: Completion<RemoteFile>) {
        services.logger.info("\(url): \(failure)")
        completion(.failure(VolumeError(failure)))
    }

    /// Whether the origin answered, and other than "no such thing".
    static func isOtherAnswer(_ failure: OriginFailure?) -> Bool {
        failure.map { $0.meaning.sign == .answer && !$0.meaning.isMissing } ?? true
    }

    /// The origin says "no such thing". - Returns: whether it said so before, long enough ago to be believed.
    private func isMissing(_ url: ResourceURL) -> Bool {
        let moment = now()
        return missing.withLock { missing in
            // A server that loses everything at once is not remembered name by name, nor are the names gone through
            // for each: 10,000 more have to come before the next time.
            if missing.count >= 10_000 {
                missing = missing.filter { moment - $1 < .seconds(60) }
                if missing.count > 5000 { missing = [:] }
            }
            let first = missing[url.text] ?? moment
            missing[url.text] = first
            return moment - first >= Self.secondLook
        }
    }

    private func openVersion(
        _ node: Node, _ url: ResourceURL, _ information: ContentInformation, until end: Duration,
        _ completion: @escaping Completion<RemoteFile>
    ) {
        if services.ticker.isOver { return completion(.failure(.timedOut)) }
        guard information.length != nil else {
            if !hasLength(node) { return firstOpen(node, url, until: end, completion) }
            replace(node, information)
            return completion(.failure(.stale))
        }
        guard tell(node, information) else { return completion(.failure(.stale)) }
        files.open(url, information) { result in
            if case .success(let file) = result { TailPrefetch.start(file, of: node) }
            completion(result)
        }
    }

    private func firstOpen(
        _ node: Node, _ url: ResourceURL, until end: Duration, _ completion: @escaping Completion<RemoteFile>
    ) {
        let (head, tail) = (head(of: node), TailPrefetch(node, url, services))
        OpenRequest.start(url, head: head, tail: tail, demand: node.openDemand, until: end, files, services) {
            [self] whole in
            services.store.remember(whole, for: url.text, checkedAt: wallClock())
            // The kernel has no length for this node: the name leads to another, with the length.
            replace(node, whole)
        } _: { [self] found in
            switch found {
            case .file(let file) where file.isOpenEnded && hasLength(node):
                let information = files.learn(file.information, of: url)
                files.close(file)
                replace(node, information)
                completion(.failure(.stale))
            case .file(let file) where file.isOpenEnded:
                node.grows(file)
                completion(.success(file))
            case .file(let file):
                services.store.remember(file.information, for: url.text, checkedAt: wallClock())
                if services.upstream.mirrors?.shared != nil, let listed = node.listed.length, listed != file.length {
                    // The listing may know better than a shared cache: the source is asked, as of what is doubted.
                    services.doubt(url)
                    files.close(file)
                    return decide(node, until: end, completion)
                }
                guard tell(node, file.information) else {
                    files.close(file)
                    return completion(.failure(.stale))
                }
                TailPrefetch.start(file, of: node)
                completion(.success(file))
            case .failure(let failure): fail(url, failure, completion)
            }
        }
    }

    private func head(of node: Node) -> Int64 {
        let more = Readahead.firstOfMedia - Readahead.first
        let isGiven =
            MediaName.isMedia(node.name) && services.budget.withLock { $0.spend(more, on: .secondBlock, now: now()) }
        return max(isGiven ? Readahead.firstOfMedia : Readahead.first, services.options.alignment)
    }

    /// Makes the node one of this version. False if the kernel has another: the name then leads to a new node, and the
    /// kernel repeats the open that gets ESTALE with a new lookup of the name (open(2) does so once).
    private func tell(_ node: Node, _ information: ContentInformation) -> Bool {
        if (node.shown.length ?? information.length) == information.length, node.take(information) { return true }
        if services.options.growing, node.begin(grown: information) {
            services.kernelCache?.forgetGrown(node.id, from: node.listed.length ?? 0)
            return true
        }
        replace(node, information)
        return false
    }

    /// Whether the kernel has a length of the node from an answer: a body without one is another then.
    private func hasLength(_ node: Node) -> Bool { node.information?.length != nil }

    private func replace(_ node: Node, _ information: ContentInformation) {
        var facts = node.listed
        if facts.length != nil {
            facts = Node.Facts(
                length: information.length, modified: information.validator.lastModified ?? facts.modified)
        }
        let parent = tree.nodes[node.parent]
        // The same file of another origin: programs see no difference.
        let looksSame = node.information.map { information.looksLike($0) } ?? false
        let isFirst = looksSame ? false : parent?.directory?.correct(node.name, facts) ?? false
        supersede(node)
        // A listing that is wrong about one file is out of date. If it says the same again, it is not fetched again.
        if isFirst, let parent, let directory = parent.directory { tree.refresher.contradicted(parent, directory) }
    }

    /// Makes the name of a node lead to a new one, which the kernel finds where an open got ESTALE.
    func supersede(_ node: Node) {
        tree.nodes[node.parent]?.directory?.untold()
        tree.nodes.supersede(node)
        services.kernelCache?.forgetEntry(node.name, in: node.parent)
    }
}
