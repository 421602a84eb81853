import CFuse
import Glibc
import ReelVolume

/// The table that libfuse calls through. What is absent is ENOSYS, which the kernel remembers and then does itself:
/// flush, fsync, lseek, locks, access, copy_file_range.
func makeOperations() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    operations.`init` = initialize
    operations.lookup = lookup
    operations.forget = forget
    operations.forget_multi = forgetMany
    operations.getattr = getAttributes
    operations.open = openFile
    operations.read = readFile
    operations.release = releaseFile
    operations.opendir = openDirectory
    operations.readdir = readDirectory
    operations.readdirplus = readDirectoryWithAttributes
    operations.releasedir = releaseDirectory
    operations.statfs = fileSystemCapacity
    operations.getxattr = getExtendedAttribute
    operations.listxattr = listExtendedAttributes
    refuseChanges(&operations)
    return operations
}

private func initialize(_ context: UnsafeMutableRawPointer?, _ connection: UnsafeMutablePointer<fuse_conn_info>?) {
    guard let context, let connection else { return }
    // Everything that helps a read-only tree, and nothing that libfuse would otherwise add. No AUTO_INVAL_DATA: a node
    // is one version, its pages never go stale. No ASYNC_DIO: it makes background requests of O_DIRECT reads, which no
    // signal ends and of which one read(2) could make thousands.
    let wanted =
        UInt32(FUSE_CAP_ASYNC_READ) | UInt32(FUSE_CAP_PARALLEL_DIROPS) | UInt32(FUSE_CAP_READDIRPLUS)
        | UInt32(FUSE_CAP_READDIRPLUS_AUTO)
    connection.pointee.want = connection.pointee.capable & wanted
    connection.pointee.max_readahead = 1 << 20
    // libfuse wants it here as well as among the mount's options.
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

private func lookup(_ request: fuse_req_t?, _ parent: fuse_ino_t, _ bytes: UnsafePointer<CChar>?) {
    guard let request else { return }
    let adapter = Adapter.of(request)
    let name: String
    switch entryName(bytes) {
    case .success(let text): name = text
    case .failure(let error): return Reply(request).fail(error)
    }
    adapter.later(request) { pending in
        adapter.filesystem.lookup(name, in: parent) { result in
            let reply = pending.take()
            switch result {
            case .success(let entry):
                // Nobody waits: the reference that the lookup counted is not the kernel's.
                guard let reply, reply.entry(adapter.ownership.parameters(of: entry)) else {
                    adapter.filesystem.forget(entry.node, count: 1)
                    break
                }
            case .failure(.notFound):
                var missing = fuse_entry_param()
                missing.entry_timeout = KernelTimeout.missing
                if let reply { _ = reply.entry(missing) }
            case .failure(let error):
                if let reply { reply.fail(error) }
            }
            pending.finish()
        }
    }
}

private func forget(_ request: fuse_req_t?, _ node: fuse_ino_t, _ count: UInt64) {
    guard let request else { return }
    Adapter.of(request).filesystem.forget(node, count: count)
    Reply(request).nothing()
}

private func forgetMany(_ request: fuse_req_t?, _ count: Int, _ forgets: UnsafeMutablePointer<fuse_forget_data>?) {
    guard let request else { return }
    for item in UnsafeBufferPointer(start: forgets, count: count) {
        Adapter.of(request).filesystem.forget(item.ino, count: item.nlookup)
    }
    Reply(request).nothing()
}

private func getAttributes(_ request: fuse_req_t?, _ node: fuse_ino_t, _: UnsafeMutablePointer<fuse_file_info>?) {
    guard let request else { return }
    let adapter = Adapter.of(request)
    adapter.later(request) { pending in
        adapter.filesystem.attributes(of: node) { result in
            guard let reply = pending.take() else { return pending.finish() }
            switch result {
            case .success(let attributes):
                reply.attributes(adapter.ownership.stat(of: attributes), timeout: KernelTimeout.known)
            case .failure(let error): reply.fail(error)
            }
            pending.finish()
        }
    }
}

private func fileSystemCapacity(_ request: fuse_req_t?, _: fuse_ino_t) {
    guard let request else { return }
    let capacity = Adapter.of(request).filesystem.capacity()
    // Small enough that no cap is rounded away.
    let unit: Int64 = 4096
    var result = statvfs()
    result.f_bsize = UInt(unit)
    result.f_frsize = UInt(unit)
    result.f_blocks = fsblkcnt_t(max(0, capacity.total) / unit)
    result.f_bfree = fsblkcnt_t(max(0, capacity.total - capacity.used) / unit)
    result.f_bavail = result.f_bfree
    result.f_namemax = 255
    Reply(request).capacity(result)
}
