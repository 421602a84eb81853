import Glibc

/// Bounds how many parked reads one user and one file can hold, so that the kernel's queue always has room for others.
///
/// The kernel stops sending readahead of the whole mount while `capacity` such requests are unanswered, and one program
/// can ask for that many by readahead(2) without waiting. A user may hold as many reads as are left for all the others, a
/// file half as many: with n greedy users a share of 1/(n + 1) stays free.
struct ParkedShares: Sendable {
    struct Owner: Hashable, Sendable {
        var user: uid_t
        var file: UInt64
    }

    let capacity: Int
    private var total = 0
    private var users: [uid_t: Int] = [:]
    private var files: [UInt64: Int] = [:]

    init(capacity: Int) { self.capacity = capacity }

    /// - Returns: false where the share is used up; nothing is counted then.
    mutating func take(_ owner: Owner) -> Bool {
        let free = capacity - total
        let (ofUser, ofFile) = (users[owner.user] ?? 0, files[owner.file] ?? 0)
        guard ofUser < free, ofFile < free / 2 else { return false }
        total += 1
        users[owner.user] = ofUser + 1
        files[owner.file] = ofFile + 1
        return true
    }

    mutating func giveBack(_ owner: Owner) {
        total -= 1
        Self.lower(&users, owner.user)
        Self.lower(&files, owner.file)
    }

    private static func lower<Key: Hashable>(_ counts: inout [Key: Int], _ key: Key) {
        guard let count = counts[key], count > 1 else { return counts[key] = nil }
        counts[key] = count - 1
    }
}

/// How many background requests, that is readahead, the kernel has unanswered at once.
enum BackgroundLimit {
    /// What INIT asks for: the largest value of its field. Readahead that is parked costs memory and holds up nobody.
    static let wanted = Int(UInt16.max)

    /// What the kernel grants: `wanted` to root, and to others what the fuse module's parameter says (process_init_limits
    /// in fs/fuse/inode.c). Its default is a 3.2 millionth of the memory: 668 with 2 GiB.
    static func granted() -> Int {
        let isRoot = geteuid() == 0 && firstNumbers("/proc/self/uid_map") == [0, 0, 4_294_967_295]
        if isRoot { return wanted }
        guard let limit = firstNumbers("/sys/module/fuse/parameters/max_user_bgreq").first, limit > 0 else {
            // As much as a machine with 800 MiB grants.
            return 256
        }
        return min(wanted, limit)
    }

    private static func firstNumbers(_ path: String) -> [Int] {
        guard let file = fopen(path, "re") else { return [] }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = fread(&bytes, 1, bytes.count, file)
        let line = bytes.prefix(count).prefix { $0 != 0x0A }
        return line.split { $0 == 0x20 || $0 == 0x09 }.compactMap { Int(String(decoding: $0, as: UTF8.self)) }
    }
}
