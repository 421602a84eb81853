import CFuse
import CLinux
import Glibc
import ReelFilesystem

func openFile(_ request: fuse_req_t!, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>!) {
    guard info.pointee.flags & O_ACCMODE == O_RDONLY else { return Reply(request).fail(.readOnly) }
    let adapter = Adapter.of(request)
    let isDirect = info.pointee.flags & reel_o_direct != 0
    let thread = fuse_req_ctx(request).pointee.pid
    adapter.later(request) {
        adapter.filesystem.open(node, by: thread, $0)
    } answer: { handle, reply in
        adapter.opened(node, handle, isDirect: isDirect, reply)
    } undo: {
        // The kernel sends no release for it.
        adapter.filesystem.close($0)
    }
}

extension Adapter {
    /// - Returns: whether the kernel holds the handle now.
    fileprivate func opened(
        _ node: NodeID, _ handle: any FileHandle, isDirect: Bool, _ reply: consuming Reply
    ) -> Bool {
        var answer = fuse_file_info()
        answer.noflush = 1
        var backing: Int32?
        switch passthrough.open(node, handle, isDirect: isDirect) {
        case .served:
            // A node is one version, so the kernel's pages of it are right as long as they live.
            answer.keep_cache = handle.wantsDirectIO ? 0 : 1
            answer.direct_io = handle.wantsDirectIO ? 1 : 0
        case .backed(let number):
            // The kernel serves it all the same (fuse_file_read_iter); see `Passthrough.open`.
            answer.direct_io = isDirect ? 1 : 0
            backing = number
        case .stale:
            // The kernel looks the name up once more, and opens what it finds.
            filesystem.supersede(handle)
            reply.fail(.stale)
            return false
        }
        let box = FileBox(handle)
        let number = number(of: box)
        answer.fh = number
        holdings.add(file: number, node)
        let isTaken = reply.send { request in
            backing.map { reel_reply_open_passthrough(request, answer, $0) } ?? fuse_reply_open(request, &answer)
        }
        if !isTaken {
            holdings.remove(file: number)
            Unmanaged.passUnretained(box).release()
            passthrough.close(node)
        }
        return isTaken
    }
}

func readFile(
    _ request: fuse_req_t!, _ node: fuse_ino_t, _ size: Int, _ offset: off_t,
    _ info: UnsafeMutablePointer<fuse_file_info>!
) {
    let adapter = Adapter.of(request)
    guard let box = adapter.file(info.pointee.fh) else { return Reply(request).fail(.stale) }
    let buffer = ReadBuffer.ofThisThread(size)
    box._withUnsafeGuaranteedRef { file in
        var reply: Reply? = Reply(request)
        var pending: PendingReply?
        let answer = adapter.filesystem.read(file.handle, offset: Int64(offset), into: buffer) {
            let owner = ParkedShares.Owner(user: fuse_req_ctx(request).pointee.uid, file: node)
            let parked = PendingReply(reply.take()!, of: adapter, file: file.handle, owner)
            pending = parked
            return parked
        }
        switch answer {
        case .read(let count): reply.take()?.bytes(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        case .failed(let error): reply.take()?.fail(error)
        case .parked: break
        }
        pending?.arm()
    }
}

func releaseFile(_ request: fuse_req_t!, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>!) {
    let adapter = Adapter.of(request)
    adapter.holdings.remove(file: info.pointee.fh)
    adapter.passthrough.close(node)
    if let box = adapter.file(info.pointee.fh) { adapter.filesystem.close(box.takeRetainedValue().handle) }
    Reply(request).end(0)
}
