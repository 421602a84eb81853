import CFuse
import CLinux
import Glibc
import ReelVolume

func openFile(_ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
    guard let request, let info else { return }
    guard info.pointee.flags & O_ACCMODE == O_RDONLY else { return Reply(request).fail(.readOnly) }
    let adapter = Adapter.of(request)
    let isDirect = info.pointee.flags & reel_o_direct != 0
    adapter.later(request) { pending in
        adapter.filesystem.open(node) { result in
            let reply = pending.take()
            switch result {
            case .success(let handle):
                // Nobody waits, or the kernel did not take the answer: no release will come.
                guard let reply, answer(reply, node, handle, isDirect: isDirect, of: adapter) else {
                    adapter.filesystem.close(handle)
                    break
                }
            case .failure(let error):
                if let reply { reply.fail(error) }
            }
            pending.finish()
        }
    }
}

/// - Returns: whether the kernel holds the handle now.
private func answer(
    _ reply: consuming Reply, _ node: NodeID, _ handle: any FileHandle, isDirect: Bool, of adapter: Adapter
) -> Bool {
    let opening = adapter.passthrough.open(node, handle, isDirect: isDirect)
    let file = Unmanaged.passRetained(OpenFile(handle))
    var answer = fuse_file_info()
    answer.fh = UInt64(UInt(bitPattern: file.toOpaque()))
    answer.noflush = 1
    let isTaken: Bool
    switch opening {
    case .served:
        // A node is one version, so the kernel's pages of it are right as long as they live.
        answer.keep_cache = handle.wantsDirectIO ? 0 : 1
        answer.direct_io = handle.wantsDirectIO ? 1 : 0
        isTaken = reply.open(answer)
    case .backed(let number):
        // Served all the same (fuse_file_read_iter in the kernel): see `Passthrough.open`.
        answer.direct_io = isDirect ? 1 : 0
        isTaken = reply.open(answer, backing: number)
    case .stale:
        reply.fail(.stale)
        file.release()
        return false
    }
    if !isTaken {
        file.release()
        adapter.passthrough.close(node)
    }
    return isTaken
}

func readFile(
    _ request: fuse_req_t?, _ node: fuse_ino_t, _ size: Int, _ offset: off_t,
    _ info: UnsafeMutablePointer<fuse_file_info>?
) {
    guard let request, let info else { return }
    let adapter = Adapter.of(request)
    let buffer = ReadBuffer.ofThisThread(size)
    Unmanaged<OpenFile>.fromOpaque(UnsafeRawPointer(bitPattern: UInt(info.pointee.fh))!)._withUnsafeGuaranteedRef {
        file in
        var reply: Reply? = Reply(request)
        var pending: PendingReply?
        let answer = adapter.filesystem.read(file.handle, offset: Int64(offset), into: buffer) {
            let owner = ParkedShares.Owner(user: fuse_req_ctx(request).pointee.uid, file: node)
            let parked = PendingReply(reply.take()!, of: adapter, file: file, owner)
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

func releaseFile(_ request: fuse_req_t?, _ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
    guard let request, let info, let pointer = UnsafeRawPointer(bitPattern: UInt(info.pointee.fh)) else { return }
    let file = Unmanaged<OpenFile>.fromOpaque(pointer).takeRetainedValue()
    let adapter = Adapter.of(request)
    adapter.passthrough.close(node)
    adapter.filesystem.close(file.handle)
    Reply(request).end(0)
}

func getExtendedAttribute(_ request: fuse_req_t?, _ node: fuse_ino_t, _ bytes: UnsafePointer<CChar>?, _ room: Int) {
    guard let request else { return }
    // A name that is no UTF-8 is one that nobody set.
    guard let bytes, let name = String(validatingCString: bytes) else { return Reply(request).fail(.noAttribute) }
    switch Adapter.of(request).filesystem.extendedAttribute(name, of: node) {
    case .success(let value): Reply(request).attribute(value, room: room)
    case .failure(let error): Reply(request).fail(error)
    }
}

func listExtendedAttributes(_ request: fuse_req_t?, _ node: fuse_ino_t, _ room: Int) {
    guard let request else { return }
    switch Adapter.of(request).filesystem.extendedAttributeNames(of: node) {
    case .success(let names): Reply(request).attribute(names.flatMap { Array($0.utf8) + [0] }, room: room)
    case .failure(let error): Reply(request).fail(error)
    }
}
