import CFuse
import Glibc
import ReelFilesystem

/// The table through which libfuse calls, each time with a request. libfuse answers absent operations with ENOSYS, and
/// the kernel then does them itself: flush, fsync, lseek, locks, access, copy_file_range.
func makeOperations() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    operations.`init` = initialize
    operations.lookup = lookup
    operations.forget = forget
    operations.forget_multi = forgetMany
    operations.getattr = getAttributes
    operations.readlink = readLink
    operations.open = openFile
    operations.read = readFile
    operations.release = releaseFile
    operations.opendir = openDirectory
    operations.readdir = { list($0, size: $2, from: $3, $4, withAttributes: false) }
    operations.readdirplus = { list($0, size: $2, from: $3, $4, withAttributes: true) }
    operations.releasedir = releaseDirectory
    operations.statfs = fileSystemCapacity
    operations.getxattr = getExtendedAttribute
    operations.listxattr = listExtendedAttributes
    refuseChanges(&operations)
    return operations
}

private func initialize(_ context: UnsafeMutableRawPointer!, _ connection: UnsafeMutablePointer<fuse_conn_info>!) {
    // All that helps a read-only tree, and nothing that libfuse would otherwise add. No AUTO_INVAL_DATA: a node is one
    // version, its pages never go stale. No ASYNC_DIO: it makes background requests of O_DIRECT reads; no signal ends
    // those, and one read(2) could make thousands.
    let wanted =
        UInt32(FUSE_CAP_ASYNC_READ) | UInt32(FUSE_CAP_PARALLEL_DIROPS) | UInt32(FUSE_CAP_READDIRPLUS)
        | UInt32(FUSE_CAP_READDIRPLUS_AUTO)
    connection.pointee.want = connection.pointee.capable & wanted
    connection.pointee.max_readahead = 1 << 20
    // libfuse needs it here as well as among the mount's options.
    connection.pointee.max_read = UInt32(ReadBuffer.longestRead)
    // Readahead counts as background, 12 requests by default: that many parked misses would hold up the hits of every
    // other file. `ParkedShares` keeps one user from taking all of it.
    connection.pointee.max_background = UInt32(BackgroundLimit.wanted)
    connection.pointee.congestion_threshold = UInt32(BackgroundLimit.wanted)
    connection.pointee.time_gran = 1_000_000_000
    let adapter = Unmanaged<Adapter>.fromOpaque(context).takeUnretainedValue()
    let depth = adapter.passthrough.depth
    if depth > 0, reel_want_passthrough(connection, depth) { adapter.passthrough.negotiated() }
    adapter.hasAnsweredInit.store(true, ordering: .relaxed)
}

private func lookup(_ request: fuse_req_t!, _ parent: fuse_ino_t, _ bytes: UnsafePointer<CChar>?) {
    let adapter = Adapter.of(request)
    let name: String
    switch entryName(bytes) {
    case .success(let text): name = text
    case .failure(let error): return Reply(request).fail(error)
    }
    adapter.later(request) { (completion: @escaping Completion<Entry?>) in
        adapter.filesystem.lookup(name, in: parent) { result in
            // The kernel keeps the answer that a name is not there.
            if case .failure(.notFound) = result { return completion(.success(nil)) }
            completion(result.map { $0 })
        }
    } answer: { entry, reply in
        var parameters =
            entry.map { adapter.ownership.parameters(of: $0, generation: adapter.generation(of: $0.node)) }
            ?? fuse_entry_param()
        guard let entry else {
            parameters.entry_timeout = KernelTimeout.missing
            return reply.send { fuse_reply_entry($0, &parameters) }
        }
        // Before the answer, as the kernel may forget at once.
        adapter.holdings.add(entry.node)
        let isTaken = reply.send { fuse_reply_entry($0, &parameters) }
        if !isTaken { adapter.holdings.remove(entry.node, 1) }
        return isTaken
    } undo: { entry in
        // The kernel does not have the reference that the lookup counted.
        if let entry { adapter.filesystem.forget(entry.node, count: 1) }
    }
}

private func forget(_ request: fuse_req_t!, _ node: fuse_ino_t, _ count: UInt64) {
    Adapter.of(request).forget(node, count)
    fuse_reply_none(request)
}

extension Adapter {
    fileprivate func forget(_ node: NodeID, _ count: UInt64) {
        holdings.remove(node, count)
        filesystem.forget(node, count: count)
    }
}

private func forgetMany(_ request: fuse_req_t!, _ count: Int, _ forgets: UnsafeMutablePointer<fuse_forget_data>?) {
    for item in UnsafeBufferPointer(start: forgets, count: count) {
        Adapter.of(request).forget(item.ino, item.nlookup)
    }
    fuse_reply_none(request)
}

private func getAttributes(_ request: fuse_req_t!, _ node: fuse_ino_t, _: UnsafeMutablePointer<fuse_file_info>?) {
    let adapter = Adapter.of(request)
    adapter.later(request) {
        adapter.filesystem.attributes(of: node, $0)
    } answer: { attributes, reply in
        var stat = adapter.ownership.stat(of: attributes)
        return reply.send { fuse_reply_attr($0, &stat, KernelTimeout.known) }
    }
}

private func readLink(_ request: fuse_req_t!, _ node: fuse_ino_t) {
    let adapter = Adapter.of(request)
    adapter.later(request) {
        adapter.filesystem.readLink(node, $0)
    } answer: { target, reply in
        reply.send { fuse_reply_readlink($0, target) }
    }
}

private func fileSystemCapacity(_ request: fuse_req_t!, _: fuse_ino_t) {
    let capacity = Adapter.of(request).filesystem.capacity()
    // Small enough that rounding hides no cap.
    let unit: Int64 = 4096
    var result = statvfs()
    result.f_bsize = UInt(unit)
    result.f_frsize = UInt(unit)
    result.f_blocks = fsblkcnt_t(max(0, capacity.total) / unit)
    result.f_bfree = fsblkcnt_t(max(0, capacity.total - capacity.used) / unit)
    result.f_bavail = result.f_bfree
    result.f_namemax = 255
    Reply(request).send { fuse_reply_statfs($0, &result) }
}

private func getExtendedAttribute(
    _ request: fuse_req_t!, _ node: fuse_ino_t, _ bytes: UnsafePointer<CChar>?, _ room: Int
) {
    // All attributes have names in UTF-8.
    guard let bytes, let name = String(validatingCString: bytes) else { return Reply(request).fail(.noAttribute) }
    Reply(request).attribute(Adapter.of(request).filesystem.extendedAttribute(name, of: node), room: room)
}

private func listExtendedAttributes(_ request: fuse_req_t!, _ node: fuse_ino_t, _ room: Int) {
    let names = Adapter.of(request).filesystem.extendedAttributeNames(of: node)
    Reply(request).attribute(names.map { $0.flatMap { Array($0.utf8) + [0] } }, room: room)
}
