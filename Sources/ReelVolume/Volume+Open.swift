import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// Which version of a file an open gets.
extension Volume {
    /// What the origin confirmed this many seconds ago holds: programs open a file several times in a row.
    private static let freshFor: Int64 = 5
    /// Who has remembered bytes waits this long for a confirmation, then plays what there is.
    private static let confirmationLimit = Duration.seconds(2)
    /// Two answers so far apart that there is no such thing are believed.
    private static let secondLook = Duration.seconds(5)

    func openFile(_ node: Node, _ completion: @escaping Completion<any FileHandle>) {
        prebuffer.opened(node)
        if let growing = node.state.withLock({ $0.growing }), files.reopen(growing) {
            if growing.isGrowing { return completion(.success(OpenFile(node, growing, wantsDirectIO: true))) }
            files.close(growing)
        }
        let isFirst = node.state.withLock { state in
            defer { state.opening = (state.opening ?? []) + [completion] }
            return state.opening == nil
        }
        guard isFirst else { return }
        decide(node) { [self] result in
            let waiting = node.state.withLock { state in
                defer { state.opening = nil }
                return state.opening ?? []
            }
            for (index, completion) in waiting.enumerated() {
                completion(
                    result.map { file in
                        // One handle more of a file that was just opened.
                        if index > 0 { files.reopen(file) }
                        return opened(node, file)
                    })
            }
        }
    }

    private func opened(_ node: Node, _ file: RemoteFile) -> any FileHandle {
        // How a complete file is read the kernel may keep to itself.
        OpenFile(
            node, file, wantsDirectIO: file.isOpenEnded, isHeld: file.isComplete && prebuffer.holds(node))
    }

    private func decide(_ node: Node, _ completion: @escaping Completion<RemoteFile>) {
        guard let url = node.url else { return completion(.failure(.failed)) }
        if node.state.withLock({ $0.isSuperseded }) { return completion(.failure(.stale)) }
        guard let remembered = services.store.information(for: url.text), remembered.information.length != nil else {
            return firstTouch(node, url, completion)
        }
        // A clock that was set back makes nothing fresh.
        let isFresh = (0...Volume.freshFor).contains(wallClock() - remembered.checkedAt)
        if isFresh || !services.origin.isWorthAsking(url) { return open(node, url, remembered.information, completion) }
        let limit = min(Volume.confirmationLimit, services.options.timeout)
        let isDoubted = remembered.checkedAt == Services.doubted
        Inquiry.start(url, known: remembered.information, isDoubted: isDoubted, limit: limit, services) {
            [self] outcome in
            if isOtherAnswer(outcome.failure) { missing.withLock { $0[url.text] = nil } }
            switch outcome {
            case .unchanged: open(node, url, files.learn(remembered.information, of: url), completion)
            case .information(let new): open(node, url, files.learn(new, of: url), completion)
            case .failure(let failure):
                switch VolumeError(failure) {
                case .accessDenied: completion(.failure(.accessDenied))
                case .stale where isMissing(url): completion(.failure(.stale))
                default:
                    // Away, unwell or gone for a moment: what is remembered plays, what is missing will say so.
                    services.logger.info("\(url): not confirmed: \(failure)")
                    open(node, url, remembered.information, completion)
                }
            }
        }
    }

    /// Whether the origin answered, and other than "no such thing".
    private func isOtherAnswer(_ failure: OriginFailure?) -> Bool {
        switch failure {
        case nil, .wrongAnswer, .changed: true
        case .status(let status, _): status != 404 && status != 410
        case .unreachable, .interrupted, .timedOut, .untrusted, .away, .cancelled: false
        }
    }

    /// The origin says "no such thing". - Returns: whether it has said so before, long enough ago to be no hiccup.
    private func isMissing(_ url: ResourceURL) -> Bool {
        let moment = now()
        return missing.withLock { missing in
            // A server that loses everything at once is not remembered name by name.
            if missing.count >= 10_000 { missing = missing.filter { moment - $1 < .seconds(60) } }
            let first = missing[url.text] ?? moment
            missing[url.text] = first
            return moment - first >= Volume.secondLook
        }
    }

    private func open(
        _ node: Node, _ url: ResourceURL, _ information: ContentInformation,
        _ completion: @escaping Completion<RemoteFile>
    ) {
        guard information.length != nil else { return firstTouch(node, url, completion) }
        guard tell(node, information) else { return completion(.failure(.stale)) }
        files.open(url, information) { result in
            if case .success(let file) = result { file.touchTail(node.name) }
            completion(result)
        }
    }

    private func firstTouch(_ node: Node, _ url: ResourceURL, _ completion: @escaping Completion<RemoteFile>) {
        FirstTouch.start(url, head: head(of: node), tail: tail(of: node), files, services) { [self] whole in
            services.store.remember(whole, for: url.text, checkedAt: wallClock())
            // The kernel was told no length for this node: the name leads to another, with the length.
            replace(node, whole)
        } _: { [self] found in
            switch found {
            case .file(let file) where file.isOpenEnded:
                node.state.withLock { $0.growing = file }
                completion(.success(file))
            case .file(let file):
                services.store.remember(file.information, for: url.text, checkedAt: wallClock())
                guard tell(node, file.information) else {
                    files.close(file)
                    return completion(.failure(.stale))
                }
                file.touchTail(node.name)
                completion(.success(file))
            case .failure(let failure):
                services.logger.info("\(url): \(failure)")
                completion(.failure(VolumeError(failure)))
            }
        }
    }

    private func head(of node: Node) -> Int64 {
        let more = Readahead.firstOfMedia - Readahead.first
        let isGiven = MediaName.isMedia(node.name) && services.heads.withLock { $0.take(more, now: now()) }
        return isGiven ? Readahead.firstOfMedia : Readahead.first
    }

    /// Where the listing tells the length of a media file, its end can be asked for before anything else is known.
    private func tail(of node: Node) -> ByteRange? {
        guard MediaName.isMedia(node.name), let length = node.listed.length, let tail = Readahead.tail(of: length),
            services.allowance.withLock({ $0.take(tail.count, now: now()) })
        else { return nil }
        return tail
    }

    /// Makes the node one of this version. False where the kernel was told another: the name then leads to a new node,
    /// and the open that gets ESTALE is repeated by the kernel, which looks the name up again (open(2) does so once).
    private func tell(_ node: Node, _ information: ContentInformation) -> Bool {
        let isSame = (node.listed.length ?? information.length) == information.length && node.take(information)
        if !isSame { replace(node, information) }
        return isSame
    }

    private func replace(_ node: Node, _ information: ContentInformation) {
        var facts = node.listed
        if facts.length != nil {
            facts = Node.Facts(
                length: information.length, modified: information.validator.lastModified ?? facts.modified)
        }
        let parent = nodes[node.parent]
        let isFirst = parent?.directory?.correct(node.name, facts) ?? false
        nodes.supersede(node)
        kernelCache?.forgetEntry(node.name, in: node.parent)
        // A listing that is wrong of one file is of an older time. One that says the same again is not asked once more.
        if isFirst, let parent, let directory = parent.directory,
            services.longestAge(of: directory.place, in: source) != nil
        {
            refresh(parent, directory)
        }
    }
}

/// An open file, as the kernel's handle names it.
final class OpenFile: FileHandle {
    let node: Node
    let remote: RemoteFile
    /// Where the kernel was told no length: it must not stop there.
    let wantsDirectIO: Bool
    /// `Prebuffer.released` is due at its end.
    let isHeld: Bool
    private let isOffered = Atomic(false)

    init(_ node: Node, _ remote: RemoteFile, wantsDirectIO: Bool, isHeld: Bool = false) {
        self.node = node
        self.remote = remote
        self.wantsDirectIO = wantsDirectIO
        self.isHeld = isHeld
    }

    func passthroughFile() -> PassthroughFile? {
        guard !wantsDirectIO, let descriptor = remote.object.offer() else { return nil }
        isOffered.store(true, ordering: .relaxed)
        return PassthroughFile(descriptor: descriptor, length: remote.length)
    }

    func passthroughBegan() { remote.object.share() }

    /// An offer holds the file as it is until the handle is gone. The kernel opens the file only some time after it has taken
    /// the answer, and nothing tells when: until then a lease would say that nobody reads the file.
    func settleOffer() {
        if isOffered.exchange(false, ordering: .relaxed) { remote.object.settle() }
    }
}
