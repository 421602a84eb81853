import Glibc
import ReelThreads
import Testing

@Suite struct AccountTests {
    @Test func usersAndGroupsAreThoseOfTheSystem() throws {
        #expect(Account.user(named: "root") == Account(id: 0, name: "root", home: "/root"))
        #expect(Account.group(named: "root") == Account(id: 0, name: "root", home: nil))
        #expect(Account.user(named: "no such user") == nil && Account.group(named: "no such group") == nil)
        #expect(try #require(Account.own).id == geteuid())
    }

    @Test func threadsThatLookAtOnceEachFindTheirOwn() {
        let names = ["root", "daemon", "nobody", "bin"]
        let wrong = Lock(0)
        let threads = names.map { name in
            Thread("look") {
                for _ in 0..<2000 where Account.user(named: name)?.name != name || Account.own?.id != geteuid() {
                    wrong.withLock { $0 += 1 }
                }
            }
        }
        for thread in threads { thread?.join() }
        #expect(wrong.withLock { $0 } == 0)
    }
}
