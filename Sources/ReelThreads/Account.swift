import CLinux
import Glibc

/// A user or a group of the system. What getpwnam(3) and the like return, the next call of any thread overwrites, and
/// one could be taken for another.
package struct Account: Hashable, Sendable {
    package let id: UInt32
    package let name: String
    /// nil for a group, and where the system gives none.
    package let home: String?

    package init(id: UInt32, name: String, home: String?) { (self.id, self.name, self.home) = (id, name, home) }

    private static let mostBytes = 1 << 20

    /// The user whose rights the process has; nil if it has no entry. getpwuid_r(3).
    package static var own: Account? {
        user { getpwuid_r(geteuid(), &$0, $1.baseAddress!, $1.count, &$2) }
    }

    /// getpwnam_r(3).
    package static func user(named name: String) -> Account? {
        user { getpwnam_r(name, &$0, $1.baseAddress!, $1.count, &$2) }
    }

    /// getgrnam_r(3).
    package static func group(named name: String) -> Account? {
        found(Glibc.group()) {
            getgrnam_r(name, &$0, $1.baseAddress!, $1.count, &$2)
        } as: {
            Account(id: $0.gr_gid, name: String(cString: $0.gr_name), home: nil)
        }
    }

    private static func user(_ look: Look<passwd>) -> Account? {
        found(passwd(), look) {
            Account(id: $0.pw_uid, name: String(cString: $0.pw_name), home: $0.pw_dir.map { String(cString: $0) })
        }
    }

    /// Fills an entry, whose texts lie in the buffer. - Returns: an errno.
    private typealias Look<Entry> = (
        inout Entry, UnsafeMutableBufferPointer<CChar>, inout UnsafeMutablePointer<Entry>?
    ) -> Int32

    private static func found<Entry>(
        _ empty: Entry, _ look: Look<Entry>, as account: (Entry) -> Account
    ) -> Account? {
        var size = 1024
        while size <= mostBytes {
            let (code, found) = withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) { buffer in
                var (entry, place) = (empty, nil as UnsafeMutablePointer<Entry>?)
                let code = look(&entry, buffer, &place)
                return (code, code == 0 && place != nil ? account(entry) : nil)
            }
            if code != ERANGE { return found }
            size *= 2
        }
        return nil
    }
}
