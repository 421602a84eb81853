import ReelCore
import ReelThreads
import Synchronization
import Testing

/// A bucket in memory: GET with a range, PUT with `If-None-Match`, and what can be wrong with it.
package final class ScriptedBucket: Sendable {
    package enum Fault: Sendable, CustomTestStringConvertible {
        /// For each request.
        case status(Int)
        /// To a place without objects on another port.
        case redirect(UInt16)
        /// To a GET.
        case silent
        case stallAfter(Int)
        case drip
        case resetAfter(Int)
        /// A byte in each block is another one.
        case wrongBytes
        /// Each object holds what another one should.
        case swapped
        case truncated
        /// 500 to the GET of a slice of this number, as while it is being written.
        case errorOf(Int)
        /// To a PUT: 200, and nothing is stored.
        case dropsWrites
        /// To the first PUT of each slice: 500.
        case failsFirstWrites
        /// To a PUT: the condition is refused.
        case knowsNoCondition
        /// To a PUT: the condition is not looked at.
        case ignoresConditions

        package var testDescription: String { "\(self)" }
    }

    private struct State {
        var objects: [String: [UInt8]] = [:]
        /// Seconds since 1970.
        var dates: [String: Int64] = [:]
        var fault: Fault?
        var refusesWrites = false
        /// The slices of which the first PUT has failed.
        var failed: Set<String> = []
        /// GETs of slices that it has.
        var reads = 0
    }

    /// What of a request tests count.
    private struct Asked {
        var method: String
        var path: String
        var hasSlice: Bool

        init(_ request: ServerRequest) {
            (method, path) = (request.method, request.path)
            hasSlice = !ScriptedBucket.isClaim(request.body)
        }
    }

    private let running: ScriptedServer?
    private let state: Contents
    private let asked: Shared<[Asked]>

    package var server: ScriptedServer { running! }

    private final class Contents: Sendable {
        let state = Mutex(State())
    }

    /// - Parameter other: one that was stopped, whose place and objects it takes.
    package init(inPlaceOf other: ScriptedBucket? = nil) throws {
        let (contents, asked) = (other?.state ?? Contents(), Shared<[Asked]>([]))
        (state, self.asked) = (contents, asked)
        running = try ScriptedServer(port: other?.server.port ?? 0) { request in
            asked.change { $0.append(Asked(request)) }
            return contents.state.withLock { Self.answer(request, &$0) }
        }
    }

    /// Without a server: for a simulated world.
    package init(serverless: Void) { (running, state, asked) = (nil, Contents(), Shared([])) }

    /// The steps that answer a request.
    package func answer(_ request: ServerRequest) -> [ServerStep] {
        asked.change { $0.append(Asked(request)) }
        return state.state.withLock { Self.answer(request, &$0) }
    }

    package func stop() { server.stop() }

    /// Slices, without claims.
    package var objects: [String: [UInt8]] { state.state.withLock { $0.objects.filter { !Self.isClaim($0.value) } } }

    package func sliceNames(_ objects: [String: [UInt8]]) -> [String] {
        objects.filter { !Self.isClaim($0.value) }.map(\.key)
    }

    private static func isClaim(_ body: [UInt8]) -> Bool { body.count < 32 }

    /// How many slices were sent, stored or not.
    package var writes: Int { asked.value.count { $0.method == "PUT" && $0.hasSlice } }

    /// How often claims that stand there were looked at.
    package var looks: Int {
        let claims = state.state.withLock { $0.objects.filter { Self.isClaim($0.value) } }
        return asked.value.count { $0.method == "GET" && claims[$0.path] != nil }
    }

    /// Acts as if this much time had gone by.
    package func age(by seconds: Int64) { state.state.withLock { $0.dates = $0.dates.mapValues { $0 - seconds } } }

    package var fault: Fault? {
        get { state.state.withLock { $0.fault } }
        set { state.state.withLock { $0.fault = newValue } }
    }

    /// 403 to each PUT.
    package var refusesWrites: Bool {
        get { state.state.withLock { $0.refusesWrites } }
        set { state.state.withLock { $0.refusesWrites = newValue } }
    }

    package func change(_ body: (inout [String: [UInt8]]) -> Void) { state.state.withLock { body(&$0.objects) } }

    package func count(_ method: String) -> Int { asked.value.count { $0.method == method } }

    private static func answer(_ request: ServerRequest, _ state: inout State) -> [ServerStep] {
        if case .status(let status)? = state.fault { return ServerStep.answer(status) }
        if case .redirect(let port)? = state.fault {
            return ServerStep.answer(302, [("Location", "http://127.0.0.1:\(port)\(request.path)")])
        }
        if request.method == "PUT" {
            return state.refusesWrites ? ServerStep.answer(403) : put(request, &state)
        }
        var name = request.path
        if case .swapped? = state.fault {
            let names = state.objects.keys.sorted()
            if let place = names.firstIndex(of: name) { name = names[(place + 1) % names.count] }
        }
        if case .silent? = state.fault { return [.stall] }
        guard let object = state.objects[name] else { return ServerStep.answer(404) }
        if !isClaim(object) { state.reads += 1 }
        if case .errorOf(state.reads)? = state.fault, !isClaim(object) { return ServerStep.answer(500) }
        let range = (request.range(of: Int64(object.count)) ?? ByteRange(0, Int64(object.count)))
            .clamped(to: ByteRange(0, Int64(object.count)))
        var bytes = Array(object[Int(range.lower)..<Int(range.upper)])
        let head = ServerStep.head(
            request["range"] == nil ? 200 : 206,
            [
                ("Content-Range", "bytes \(range.lower)-\(range.upper - 1)/\(object.count)"),
                ("Content-Length", "\(range.count)"), ("Date", httpDateText(wallClock())),
                ("Last-Modified", httpDateText(state.dates[request.path] ?? 0)),
            ])
        switch state.fault {
        case .stallAfter(let count)?: return [head, .body(Array(bytes.prefix(count))), .stall]
        case .resetAfter(let count)?: return [head, .body(Array(bytes.prefix(count))), .reset]
        case .drip?:
            return [head]
                + bytes.prefix(400_000).map { $0 }.chunks(of: 1000).flatMap {
                    [.body($0), .pause(.milliseconds(100))]
                }
        case .wrongBytes?: for place in stride(from: 5000, to: bytes.count, by: 100_000) { bytes[place] ^= 1 }
        default: break
        }
        return [head, .body(bytes)]
    }

    private static func put(_ request: ServerRequest, _ state: inout State) -> [ServerStep] {
        let isConditional = request["if-none-match"] == "*"
        switch state.fault {
        case .dropsWrites?: return ServerStep.answer(200)
        case .failsFirstWrites? where !isClaim(request.body) && state.failed.insert(request.path).inserted:
            return ServerStep.answer(500)
        case .knowsNoCondition? where isConditional: return ServerStep.answer(501)
        case .ignoresConditions?: break
        default: if isConditional, state.objects[request.path] != nil { return ServerStep.answer(412) }
        }
        var body = request.body
        if case .truncated? = state.fault { body.removeLast(min(body.count, 70_000)) }
        state.objects[request.path] = body
        state.dates[request.path] = wallClock()
        return ServerStep.answer(200)
    }
}

extension Array {
    fileprivate func chunks(of count: Int) -> [[Element]] {
        stride(from: 0, to: self.count, by: count).map { Array(self[$0..<Swift.min(self.count, $0 + count)]) }
    }
}
