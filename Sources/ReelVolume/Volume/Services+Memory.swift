import CLinux

extension Services {
    /// Gives the memory of a document that the caller has freed back to the system: the allocator keeps freed pieces
    /// for later, and after a listing of a hundred thousand entries the mount does not need them for hours.
    /// - Parameter size: of the document, in bytes; a small one does not justify the walk through the heap.
    func giveBackMemory(after size: Int) {
        if size >= 1 << 20 { chores.add { malloc_trim(0) } }
    }
}
