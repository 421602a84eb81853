import Glibc

/// Bounds how many parked reads one user and one file can hold, so that the kernel's queue always has room for others.
///
/// The kernel sends no more readahead of the whole mount while `capacity` such requests are unanswered, and one program
/// can ask for that many by readahead(2) without waiting. A user may hold as many reads as are left for all others, and
/// a file half as many: with n greedy users a share of 1/(n + 1) stays free.
struct ParkedShares: Sendable {
    struct Owner: Hashable, Sendable {
        var user: uid_t
        var file: UInt64
    }

    private enum Share: Hashable {
        case user(uid_t)
        case file(UInt64)
    }

    let capacity: Int
    private var total = 0
    private var counts: [Share: Int] = [:]

    init(capacity: Int) { self.capacity = capacity }

    /// Counts one parked read. - Returns: false where the share is used up; the read is not counted then.
    mutating func take(_ owner: Owner) -> Bool {
        let free = capacity - total
        let (user, file) = (Share.user(owner.user), Share.file(owner.file))
        guard counts[user, default: 0] < free, counts[file, default: 0] < free / 2 else { return false }
        total += 1
        for share in [user, file] { counts[share, default: 0] += 1 }
        return true
    }

    mutating func giveBack(_ owner: Owner) {
        total -= 1
        for share in [Share.user(owner.user), .file(owner.file)] {
            let rest = counts[share, default: 0] - 1
            counts[share] = rest > 0 ? rest : nil
        }
    }
}

/// How many background requests, that is readahead, the kernel has unanswered at once.
enum BackgroundLimit {
    /// INIT asks for the largest value of its field: parked readahead costs memory and holds up no other request.
    static let wanted = Int(UInt16.max)

    /// The kernel grants `wanted` to root, and the fuse module's parameter to others (process_init_limits in
    /// fs/fuse/inode.c). Its default is a 3.2 millionth of the memory: 668 with 2 GiB.
    static func granted() -> Int {
        let isRoot = geteuid() == 0 && firstNumbers("/proc/self/uid_map") == [0, 0, 4_294_967_295]
        if isRoot { return wanted }
        guard let limit = firstNumbers("/sys/module/fuse/parameters/max_user_bgreq").first, limit > 0 else {
            // The default with 800 MiB of memory.
            return 256
        }
        return min(wanted, limit)
    }

    private static func firstNumbers(_ path: String) -> [Int] {
        let line = (contents(of: path) ?? "").prefix { $0 != "\n" }
        return line.split { $0 == " " || $0 == "\t" }.compactMap { Int($0) }
    }
}
