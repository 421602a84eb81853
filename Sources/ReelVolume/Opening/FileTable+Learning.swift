import ReelCache
import ReelCore
import ReelThreads

/// Learns from answers about known versions.
extension FileTable {
    /// Remembers content information that has just come from the origin.
    /// - Returns: the content information from here on. A confirmed version keeps its first validator: a weak tag may
    ///   have become strong, and another server may have another date for it.
    func learn(_ new: ContentInformation, of url: ResourceURL) -> ContentInformation {
        var new = new
        if let known = services.store.information(for: url.text)?.information, known.length != nil {
            if new.isSameVersion(as: known) {
                new.validator = known.validator
                // The origin reports the known version again: its open handles can read on.
                file(for: version(url, new))?.revive()
            } else if new.validator.mirror == 0 {
                // What a mirror has ends no version of the source.
                retire(version(url, known))
            }
        }
        services.store.remember(new, for: url.text, checkedAt: wallClock())
        return new
    }

    /// The origin says that a version is unchanged. Of one that has become longer since it was asked that says nothing.
    /// - Returns: as `learn`.
    func confirm(_ known: ContentInformation, of url: ResourceURL) -> ContentInformation {
        let present = present(known, of: url)
        return present == known ? learn(known, of: url) : present
    }

    /// What a version is now: it may have become longer while the origin was asked about it.
    func present(_ known: ContentInformation, of url: ResourceURL) -> ContentInformation {
        guard services.options.growing, let present = services.store.information(for: url.text)?.information,
            known.mayGrow(to: present)
        else { return known }
        return present
    }

    /// Takes the version that the source has now. If the remembered one is a mirror's, and may be the same, a block of
    /// it is compared with the source's first: bytes that are the source's stay.
    /// - Parameters:
    ///   - end: of the wait for that comparison, on the clock of `now()`.
    ///   - completion: gets the version to open: the mirror's, if the source gave no answer in time, or if a version of
    ///     that name is open already.
    func settle(
        _ known: ContentInformation, _ new: ContentInformation, of url: ResourceURL, until end: Duration,
        _ completion: @escaping @Sendable (ContentInformation) -> Void
    ) {
        if services.options.growing, known.mayGrow(to: new) {
            let present = present(known, of: url)
            if known.mayGrow(to: present), !present.mayGrow(to: new) { return completion(present) }
            if grow(present, new, of: url, until: end, completion) { return }
        }
        guard known.validator.mirror != 0, new.validator.mirror == 0, new.isProven(by: known) else {
            return completion(learn(new, of: url))
        }
        let settled = once(until: end, late: MirrorClaims.Standing?.some(.unknown)) { [self] standing in
            switch standing {
            // There was nothing to compare.
            case nil: completion(learn(new, of: url))
            case .unknown: completion(known)
            case .differs:
                services.upstream.mirrors?.contradicted(url, known, new)
                completion(learn(new, of: url))
            case .agrees:
                services.later { [self] in
                    completion(learn(rename(known, new, of: url) ? new : known, of: url))
                }
            }
        }
        if !services.upstream.prove(url, known, { settled($0) }) { settled(nil) }
    }

    /// The completion of a comparison that may take no longer than `end`.
    private func once<Answer: Sendable>(
        until end: Duration, late: Answer, _ body: @escaping @Sendable (Answer) -> Void
    ) -> @Sendable (Answer) -> Void {
        services.ticker.once(within: end - now(), elseOnly: late, by: services.later, body)
    }

    /// Compares what is known of a version with the origin's bytes, so that it becomes the longer one.
    /// - Returns: false where nothing of it is known, or the longer one has another key.
    private func grow(
        _ known: ContentInformation, _ new: ContentInformation, of url: ResourceURL, until end: Duration,
        _ completion: @escaping @Sendable (ContentInformation) -> Void
    ) -> Bool {
        let (key, length) = (services.keys.key(of: url, known), known.length ?? 0)
        guard key == services.keys.key(of: url, new),
            file(for: version(url, known)) != nil || services.keys.cachedBytes(of: url, length) > 0
        else { return false }
        let settled = once(until: end, late: GrowthProof.Verdict.unknown) { [self] verdict in
            switch verdict {
            case .grown(let information): completion(information)
            case .differs: completion(learn(new, of: url))
            case .unknown: completion(present(known, of: url))
            }
        }
        open(url, known) { [self] result in
            guard case .success(let file) = result else { return settled(.differs) }
            file.compare { [self] verdict in
                settled(verdict)
                close(file)
            }
        }
        return true
    }

    /// The bytes of one version, open or not, are those of another from now on. - Returns: false if that is open
    /// itself.
    private func rename(_ known: ContentInformation, _ new: ContentInformation, of url: ResourceURL) -> Bool {
        guard services.store.rename(version(url, known), new.validator) else { return false }
        // It may have left the table meanwhile.
        file(for: version(url, new))?.move(to: nil, new)
        return true
    }

    private func version(_ url: ResourceURL, _ information: ContentInformation) -> Version {
        Version(
            key: services.keys.key(of: url, information), validator: information.validator,
            length: information.length ?? 0)
    }

    /// Finds out whether a file that was never asked for at this URL is one whose bytes came from another. Asks for a
    /// byte, and for none if the listing has the length and the tag is known.
    /// - Parameter length: from a listing, nil if it gives none.
    /// - Returns: false where no bytes may be of this file; the completion is not called then.
    func recognise(
        _ url: ResourceURL, length: Int64?, within limit: Duration,
        _ completion: @escaping @Sendable (Result<ContentInformation, OriginFailure>) -> Void
    ) -> Bool {
        guard let known = services.keys.knownElsewhere(url, length: length) else { return false }
        // Tags are unique within one URL only: without the length, "not changed" says too little.
        let isSure = known.validator.entityTag != nil && length == known.length
        InformationRequest.start(url, known: known, isDoubted: !isSure, limit: limit, services) { [self] outcome in
            switch outcome {
            case .unchanged: completion(.success(confirm(known, of: url)))
            case .information(let new): completion(.success(learn(new, of: url)))
            case .failure(let failure): completion(.failure(failure))
            }
        }
        return true
    }

    /// Retires an older version: its open handles read the bytes that are there, then it goes.
    private func retire(_ version: Version) {
        if let file = file(for: version) { file.supersede() } else { services.store.forget(version) }
    }
}
