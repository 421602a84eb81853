import ReelCore

/// The calls of the kernel adapter.
extension Volume: Filesystem {
    package func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        guard name.utf8.count <= 255 else { return completion(.failure(.nameTooLong)) }
        guard let node = nodes[parent] else { return completion(.failure(.stale)) }
        listing(of: node) { [self] result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let listed):
                guard let place = listed.entries.place(of: name) else { return completion(.failure(.notFound)) }
                resolve(place, of: listed, in: node, completion)
            }
        }
    }

    package func forget(_ node: NodeID, count: UInt64) {
        nodes.forget(node, count: count)
        // A kernel short of memory forgets by the ten thousand, and so should we.
        if forgotten.add(1, ordering: .relaxed).newValue % 65_536 == 0 {
            services.giveBackMemory(after: .max)
        }
    }

    package func attributes(of id: NodeID, _ completion: @escaping Completion<Attributes>) {
        guard let node = nodes.peek(id) else { return completion(.failure(.stale)) }
        completion(.success(attributes(of: node)))
    }

    package func open(_ id: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        guard let node = nodes[id] else { return completion(.failure(.stale)) }
        guard !node.isDirectory else { return completion(.failure(.isDirectory)) }
        openFile(node, completion)
    }

    package func close(_ file: any FileHandle) {
        let file = file as! OpenFile
        file.settleOffer()
        let isPlayed = file.remote.isPlayed
        if files.close(file.remote) { prebuffer.closed(file.node, file.remote, isPlayed: isPlayed) }
        if file.isHeld { prebuffer.released(file.node) }
    }

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let file = file as! OpenFile
        let remote = file.remote
        let answer = remote.read(offset, into: buffer, of: file.node.id, park: park)
        if remote.plays.load(ordering: .relaxed) != 0, remote.plays.exchange(0, ordering: .relaxed) != 0 {
            prebuffer.played(file.node, isThere: remote.isPlayedFromCache)
        }
        return answer
    }

    package func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        (file as! OpenFile).remote.abandon(read)
    }

    package func openDirectory(_ id: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        guard let node = nodes[id] else { return completion(.failure(.stale)) }
        let parentInode = nodes.peek(node.parent)?.inode ?? node.inode
        listing(of: node) { [self] result in
            completion(
                result.map { DirectorySnapshot(self, node, parentInode: parentInode, $0) as any DirectoryHandle })
        }
    }

    package func capacity() -> Capacity {
        let usage = services.store.usage
        return Capacity(total: usage.cap, used: usage.used)
    }

    package func extendedAttribute(_ name: String, of id: NodeID) -> Result<[UInt8], VolumeError> {
        // What `ls -l` asks of every file (security.selinux, system.posix_acl_access): said like this, it asks once.
        guard name.hasPrefix("user.") else { return .failure(.unsupported) }
        guard let node = nodes.peek(id) else { return .failure(.stale) }
        guard let value = attribute(name, of: node) else { return .failure(.noAttribute) }
        return .success(Array(value.utf8))
    }

    package func extendedAttributeNames(of id: NodeID) -> Result<[String], VolumeError> {
        guard let node = nodes.peek(id) else { return .failure(.stale) }
        let all = [
            "user.mime_type", "user.reelfs.url", "user.reelfs.cached", "user.reelfs.socket", "user.reelfs.stale",
        ]
        return .success(all.filter { attribute($0, of: node) != nil })
    }

    private func attribute(_ name: String, of node: Node) -> String? {
        switch name {
        case "user.reelfs.url": return node.url?.text
        case "user.reelfs.socket": return node.id == rootNode ? socketPath.withLock { $0 } : nil
        case "user.reelfs.stale": return node.directory.flatMap { health.mark(of: $0.place) }
        case "user.mime_type" where !node.isDirectory: return information(of: node)?.mediaType
        case "user.reelfs.cached" where !node.isDirectory:
            let information = information(of: node)
            guard let length = information?.length, length > 0 else { return information == nil ? "0" : "100" }
            return "\(cachedBytes(node, information) * 100 / length)"
        default: return nil
        }
    }

    private func information(of node: Node) -> ContentInformation? {
        node.state.withLock { $0.information }
            ?? node.url.flatMap { services.store.information(for: $0.text)?.information }
    }
}
