#if DEBUG
    import Glibc

    /// Threads that take turns in an order that a seed decides, and a time that passes only while all of them wait.
    ///
    /// `run` makes the calling thread the first of them, and each `Thread` that one of them starts is another. On these
    /// threads `Lock`, `Monitor`, `Thread.join`, the clocks and `RandomNumbers` ask here; on all others they are what
    /// they are in a release build. Each lock that is taken, each wait and each start is a point at which another
    /// thread may go on, so a seed stands for one order of all events, and gives it again.
    ///
    /// The idea is that of Shuttle (Amazon) and of FoundationDB's simulation; the order by priorities is from
    /// Burckhardt and others, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (PCT, ASPLOS
    /// 2010).
    ///
    /// `@unchecked Sendable`: only the thread whose turn it is reaches the state, and the semaphores by which the turn
    /// is passed on order these accesses.
    package final class Simulation: @unchecked Sendable {
        /// How the next thread is chosen.
        package enum Order: Sendable {
            /// At each point another thread goes on with this probability.
            case random(Double)
            /// The thread of the highest priority goes on, until it loses that at one of some points.
            case priorities(changes: Int, points: Int)
        }

        /// Who takes part: one thread.
        final class Member {
            let simulation: Simulation
            let number: Int
            var name: String
            fileprivate var turn = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
            fileprivate var wait: Wait?
            /// When the wait ends by itself, nil if it does not.
            fileprivate var deadline: Duration?
            fileprivate var hasEnded = false
            fileprivate var priority: UInt64
            fileprivate var handle: pthread_t?
            /// The locks that it holds, for the words about a deadlock.
            fileprivate var held: [Turnstile] = []

            fileprivate init(_ simulation: Simulation, _ name: String) {
                self.simulation = simulation
                self.name = name
                number = simulation.nextNumber
                simulation.nextNumber += 1
                // Above those that have lost theirs.
                priority = simulation.random.next() | 1 << 63
                sem_init(turn, 0, 0)
            }

            deinit {
                sem_destroy(turn)
                turn.deallocate()
            }
        }

        fileprivate enum Wait {
            case lock(Turnstile)
            case change(of: Turnstile)
            case end(of: Member)
        }

        /// The door of one lock.
        @usableFromInline final class Turnstile: @unchecked Sendable {
            fileprivate var owner: Member?
            fileprivate let name: String

            init(_ name: String) { self.name = name }
        }

        private var members: [Member] = []
        fileprivate var nextNumber = 0
        private let order: Order
        private var random: SimulatedRandom
        private var time = Duration.zero
        /// Points so far.
        package private(set) var points = 0
        private var changes: Set<Int> = []
        /// A thread that has ended, for the next one to join.
        private var ended: pthread_t?
        /// Sums up all that was said.
        package private(set) var digest: UInt64 = 0xCBF2_9CE4_8422_2325
        private let told: (@Sendable (String) -> Void)?
        private let showsPoints: Bool

        /// What a point costs.
        private static let step = Duration.microseconds(1)
        /// A program that takes more points than this in one seed goes in a circle.
        private static let mostPoints = 50_000_000
        /// A program that still waits for something then does so forever.
        private static let longest = Duration.seconds(100_000)

        private init(seed: UInt64, _ order: Order, _ tell: (@Sendable (String) -> Void)?, showsPoints: Bool) {
            random = SimulatedRandom(state: seed)
            self.order = order
            (told, self.showsPoints) = (tell, showsPoints)
            if case .priorities(let count, let points) = order {
                changes = Set((0..<count).map { _ in Int(random.next() % UInt64(max(1, points))) })
            }
        }

        // MARK: From outside

        /// Runs `body` as the first thread of a simulation.
        /// - Parameters:
        ///   - tell: gets each line of the story, nil if it is only summed up.
        ///   - showsPoints: also each lock that is taken: where two runs of a seed part.
        /// - Returns: the simulation as it has ended, and the names of the threads that still run.
        package static func run(
            seed: UInt64, _ order: Order, tell: (@Sendable (String) -> Void)? = nil, showsPoints: Bool = false,
            _ body: () throws -> Void
        ) rethrows -> (Simulation, left: [String]) {
            let simulation = Simulation(seed: seed, order, tell, showsPoints: showsPoints)
            let first = Member(simulation, "main")
            first.handle = pthread_self()
            simulation.members = [first]
            precondition(current == nil, "a simulation in a simulation")
            pthread_setspecific(memberKey, Unmanaged.passUnretained(first).toOpaque())
            defer { pthread_setspecific(memberKey, nil) }
            try withExtendedLifetime(first) { try body() }
            return (simulation, simulation.members.filter { $0 !== first }.map(\.name))
        }

        /// The simulation that the calling thread takes part in, nil if it takes part in none.
        package static var ofThisThread: Simulation? { current?.simulation }

        /// Adds a line to the story, where the calling thread is in one.
        package static func tell(_ line: @autoclosure () -> String) {
            guard let member = current else { return }
            member.simulation.tell(line(), member)
        }

        /// Lets time pass on the calling thread, which must be in a simulation.
        package static func sleep(_ duration: Duration) {
            guard let member = current else { preconditionFailure("no simulation") }
            let never = Turnstile("sleep")
            _ = member.simulation.sleep(member, .change(of: never), until: member.simulation.time + duration)
        }

        /// Since the beginning.
        package var elapsed: Duration { time }

        // MARK: Doors

        static var current: Member? {
            pthread_getspecific(memberKey).map { Unmanaged<Member>.fromOpaque($0).takeUnretainedValue() }
        }

        /// The clock; to ask for it takes time, so that no loop waits for it forever.
        func now() -> Duration {
            time += .nanoseconds(100)
            return .seconds(1000) + time
        }

        /// Nanoseconds since 1970.
        var wallClock: Int64 {
            let parts = time.components
            return (1_750_000_000 + parts.seconds) * 1_000_000_000 + parts.attoseconds / 1_000_000_000
        }

        func randomNumber() -> UInt64 { random.next() }

        func enter(_ door: Turnstile, _ me: Member) {
            if showsPoints { told?("\(points) \(me.name)#\(me.number) \(door.name)") }
            point(me)
            while door.owner != nil { _ = sleep(me, .lock(door), until: nil) }
            door.owner = me
            me.held.append(door)
        }

        func leave(_ door: Turnstile, _ me: Member) {
            door.owner = nil
            me.held.removeAll { $0 === door }
            wake { if case .lock(let other) = $0 { other === door } else { false } }
        }

        /// Wakes who waits for a change of the value behind the door.
        func changed(_ door: Turnstile) {
            wake { if case .change(let other) = $0 { other === door } else { false } }
        }

        /// Waits for a change, outside of the door. - Returns: false once the time has passed.
        func waitForChange(of door: Turnstile, _ me: Member, until deadline: Duration?) -> Bool {
            sleep(me, .change(of: door), until: deadline.map { $0 - .seconds(1000) })
        }

        /// A new thread. - Returns: what it does.
        func adopt(_ name: String, _ body: @escaping @Sendable () -> Void) -> (Member, @Sendable () -> Void) {
            let member = Member(self, name)
            members.append(member)
            let box = MemberBox(member, body)
            return (
                member,
                {
                    let member = box.member
                    pthread_setspecific(memberKey, Unmanaged.passUnretained(member).toOpaque())
                    member.simulation.takeTurn(member)
                    box.run()
                    member.simulation.end(member)
                }
            )
        }

        private final class MemberBox: @unchecked Sendable {
            let member: Member
            private var body: (@Sendable () -> Void)?

            init(_ member: Member, _ body: @escaping @Sendable () -> Void) { (self.member, self.body) = (member, body) }

            /// What the body alone holds is freed while it is the thread's turn.
            func run() {
                let body = self.body.take()!
                body()
            }
        }

        /// The thread of a member could not be started.
        func disown(_ member: Member) { members.removeAll { $0 === member } }

        func started(_ member: Member, _ handle: pthread_t) { member.handle = handle }

        func waitForEnd(of other: Member, _ me: Member) {
            point(me)
            while !other.hasEnded { _ = sleep(me, .end(of: other), until: nil) }
        }

        // MARK: Turns

        private func wake(_ isOver: (Wait) -> Bool) {
            for member in members where member.wait.map(isOver) ?? false { member.wait = nil }
        }

        private func tell(_ line: String, _ me: Member) {
            let whole = "\(Self.shown(time)) \(me.name)#\(me.number): \(line)"
            for byte in whole.utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01B3 }
            told?(whole)
        }

        private static func shown(_ time: Duration) -> String {
            let milliseconds = Int64(time / .milliseconds(1))
            let rest = String(milliseconds % 1000 + 1000).dropFirst()
            return "\(milliseconds / 1000).\(rest)"
        }

        /// Another thread may go on here.
        private func point(_ me: Member) {
            points += 1
            time += Self.step
            if points > Self.mostPoints { stuck("the program goes in a circle") }
            if time > Self.longest { stuck("the program waits without an end") }
            switch order {
            case .random(let share):
                if Double(random.next() >> 11) * 0x1p-53 >= share { return }
            case .priorities:
                if changes.remove(points) != nil { me.priority = UInt64(changes.count) }
            }
            let next = choose()
            if next !== me { pass(to: next, from: me) }
        }

        /// - Returns: false where the time has passed.
        private func sleep(_ me: Member, _ wait: Wait, until deadline: Duration?) -> Bool {
            (me.wait, me.deadline) = (wait, deadline)
            let next = chooseOrLetTimePass()
            if next !== me { pass(to: next, from: me) }
            defer { me.deadline = nil }
            return deadline.map { time < $0 } ?? true
        }

        private func end(_ me: Member) {
            me.hasEnded = true
            ended = me.handle
            members.removeAll { $0 === me }
            wake { if case .end(let other) = $0 { other === me } else { false } }
            sem_post(chooseOrLetTimePass().turn)
        }

        private func chooseOrLetTimePass() -> Member {
            while !members.contains(where: { $0.wait == nil }) {
                guard let soonest = members.compactMap(\.deadline).min() else { stuck("all threads wait") }
                time = max(time, soonest)
                for member in members where member.deadline.map({ $0 <= time }) ?? false { member.wait = nil }
            }
            return choose()
        }

        private func choose() -> Member {
            let ready = members.filter { $0.wait == nil }
            if case .priorities = order { return ready.max { $0.priority < $1.priority }! }
            return ready[Int(random.next() % UInt64(ready.count))]
        }

        private func pass(to next: Member, from me: Member) {
            sem_post(next.turn)
            takeTurn(me)
        }

        private func takeTurn(_ me: Member) {
            while sem_wait(me.turn) != 0 {}
            // What a thread frees as it ends is freed before another one goes on.
            if let ended = ended.take() { pthread_join(ended, nil) }
        }

        /// What each thread of the calling thread's simulation does, a line each.
        package static var threads: [String] { current?.simulation.rows ?? [] }

        private func stuck(_ sentence: String) -> Never {
            fatalError("\(sentence) at \(Self.shown(time)):\n\(rows.joined(separator: "\n"))")
        }

        private var rows: [String] {
            members.map { member -> String in
                let held = member.held.map(\.name).joined(separator: ", ")
                let place: String
                switch member.wait {
                case nil: place = "could go on"
                case .lock(let door)?: place = "waits for \(door.name), which \(door.owner?.name ?? "nobody") holds"
                case .change(let door)?: place = "waits for a change of \(door.name)"
                case .end(let other)?: place = "waits for the end of \(other.name)"
                }
                return "  \(member.name)#\(member.number) \(place)\(held.isEmpty ? "" : "; holds \(held)")"
            }
        }
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    private struct SimulatedRandom {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    private let memberKey: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
#endif
