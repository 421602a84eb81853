import CFuse
import Glibc
import ReelFilesystem

func openDirectory(_ request: fuse_req_t!, _ node: fuse_ino_t, _: UnsafeMutablePointer<fuse_file_info>?) {
    let adapter = Adapter.of(request)
    adapter.later(request) {
        adapter.filesystem.openDirectory(node, $0)
    } answer: { handle, reply in
        var answer = fuse_file_info()
        let box = DirectoryBox(handle)
        let number = adapter.number(of: box)
        answer.fh = number
        // The kernel keeps the names, and drops them at the next open unless it knows their attributes too: without
        // those it would look up one name after the other, where reading all again takes a few requests.
        let isKept = adapter.holdings.add(directory: number, node, handle)
        answer.cache_readdir = isKept ? 1 : 0
        answer.keep_cache = isKept && handle.isHeldByKernel ? 1 : 0
        if !isKept { handle.isNotKept() }
        let isTaken = reply.send { fuse_reply_open($0, &answer) }
        if !isTaken {
            adapter.holdings.remove(directory: number)
            Unmanaged.passUnretained(box).release()
        }
        return isTaken
    }
}

func releaseDirectory(_ request: fuse_req_t!, _: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>!) {
    let adapter = Adapter.of(request)
    adapter.holdings.remove(directory: info.pointee.fh)
    adapter.directory(info.pointee.fh)?.release()
    Reply(request).end(0)
}

/// Answers readdir and readdirplus. - Parameter offset: where the listing goes on; 0 is its beginning.
func list(
    _ request: fuse_req_t!, size: Int, from offset: off_t, _ info: UnsafeMutablePointer<fuse_file_info>!,
    withAttributes: Bool
) {
    let adapter = Adapter.of(request)
    let number = info.pointee.fh
    guard let directory = adapter.directory(number)?.takeUnretainedValue().handle else {
        return Reply(request).fail(.stale)
    }
    guard let inherited = directory as? InheritedDirectory, inherited.reopened.handle == nil else {
        adapter.list(directory, number, size, offset, withAttributes, Reply(request))
        return
    }
    adapter.later(request) {
        adapter.inherited?.reopen(inherited, $0)
    } answer: { _, reply in
        adapter.list(inherited, number, size, offset, withAttributes, reply)
    }
}

extension Adapter {
    /// - Returns: whether the kernel took the answer.
    @discardableResult
    fileprivate func list(
        _ directory: any DirectoryHandle, _ number: UInt64, _ size: Int, _ offset: off_t, _ withAttributes: Bool,
        _ reply: consuming Reply
    ) -> Bool {
        let ownership = ownership
        var told: [NodeID] = []
        // The kernel asks again after an answer that is shorter than it may be.
        let size = min(size, ReadBuffer.capacity)
        let buffer = ReadBuffer.ofThisThread(size)
        let start = buffer.baseAddress!.assumingMemoryBound(to: CChar.self)
        var used = 0
        let request = reply.withRequest { $0 }
        directory.items(from: Int(offset), withAttributes: withAttributes) { item in
            var parameters =
                item.entry.map { ownership.parameters(of: $0, generation: generation(of: $0.node)) }
                ?? fuse_entry_param()
            // The kernel takes number and kind from here without an entry too (node 0, "attributes not known").
            parameters.attr.st_ino = ino_t(item.inode)
            parameters.attr.st_mode = ownership.mode(isDirectory: item.isDirectory, isLink: item.isLink)
            let needed =
                withAttributes
                ? fuse_add_direntry_plus(
                    request, start + used, size - used, item.name, &parameters, off_t(item.nextOffset))
                : fuse_add_direntry(
                    request, start + used, size - used, item.name, &parameters.attr, off_t(item.nextOffset))
            // libfuse returns how much it needs, and writes nothing where that is more than there is.
            guard used + needed <= size else { return false }
            used += needed
            if let node = item.entry?.node { told.append(node) }
            return true
        }
        holdings.add(told, of: number, isPartRead: used > 0)
        return reply.send { fuse_reply_buf($0, start, used) }
    }
}
