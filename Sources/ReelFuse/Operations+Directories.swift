import CFuse
import Glibc
import ReelVolume

func openDirectory(_ request: fuse_req_t!, _ node: fuse_ino_t, _: UnsafeMutablePointer<fuse_file_info>?) {
    let adapter = Adapter.of(request)
    adapter.later(request) {
        adapter.filesystem.openDirectory(node, $0)
    } answer: { handle, reply in
        var answer = fuse_file_info()
        let (box, number) = DirectoryBox.retained(handle)
        answer.fh = number
        // The kernel keeps the names, and drops them at the next open unless it knows their attributes too: without
        // those it would look up one name after the other, where reading all anew takes a few requests.
        answer.cache_readdir = 1
        answer.keep_cache = handle.isHeldByKernel ? 1 : 0
        let isTaken = reply.send { fuse_reply_open($0, &answer) }
        if !isTaken { box.release() }
        return isTaken
    }
}

func releaseDirectory(_ request: fuse_req_t!, _: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>!) {
    DirectoryBox.named(by: info).release()
    Reply(request).end(0)
}

/// Answers readdir and readdirplus. - Parameter offset: where the listing goes on; 0 is its beginning.
func list(
    _ request: fuse_req_t!, size: Int, from offset: off_t, _ info: UnsafeMutablePointer<fuse_file_info>!,
    withAttributes: Bool
) {
    let directory = DirectoryBox.named(by: info).takeUnretainedValue()
    let ownership = Adapter.of(request).ownership
    let reply = Reply(request)
    // The kernel asks again after an answer that is shorter than it may be.
    let size = min(size, ReadBuffer.capacity)
    let buffer = ReadBuffer.ofThisThread(size)
    let start = buffer.baseAddress!.assumingMemoryBound(to: CChar.self)
    var used = 0
    directory.handle.items(from: Int(offset), withAttributes: withAttributes) { item in
        let needed = reply.withRequest { request in
            var parameters = item.entry.map { ownership.parameters(of: $0) } ?? fuse_entry_param()
            // The kernel takes number and kind from here without an entry too (node 0, "attributes not known").
            parameters.attr.st_ino = ino_t(item.inode)
            parameters.attr.st_mode = ownership.mode(isDirectory: item.isDirectory)
            return withAttributes
                ? fuse_add_direntry_plus(
                    request, start + used, size - used, item.name, &parameters, off_t(item.nextOffset))
                : fuse_add_direntry(
                    request, start + used, size - used, item.name, &parameters.attr, off_t(item.nextOffset))
        }
        // libfuse returns how much it needs, and writes nothing where that is more than there is.
        guard used + needed <= size else { return false }
        used += needed
        return true
    }
    reply.bytes(UnsafeRawBufferPointer(rebasing: buffer[..<used]))
}
