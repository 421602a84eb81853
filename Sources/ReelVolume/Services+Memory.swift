import CLinux

extension Services {
    /// Gives the memory of a document back to the system, once the caller has let go of it: the allocator keeps freed
    /// pieces for later, and after a listing of a hundred thousand entries nothing needs them for hours.
    /// - Parameter size: of the document, in bytes; a small one is not worth the walk through the heap.
    func giveBackMemory(after size: Int) {
        if size >= 1 << 20 { chores.add { malloc_trim(0) } }
    }
}
