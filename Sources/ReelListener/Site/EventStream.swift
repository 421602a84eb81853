import NIOCore
import ReelCore
import ReelThreads

/// A message a second for each client that listens (server-sent events, HTML Living Standard, section 9.2), made once
/// for all of them, and not at all while none listens.
final class EventStream: Sendable {
    private struct State {
        var clients = 0
        var message = ByteBuffer()
        var madeAt: Duration?
        var isMaking = false
    }

    /// Each costs a connection and a message that it has not taken yet.
    static let mostClients = 16
    private static let pause = Duration.seconds(1)

    /// The time in which a client has to take a message.
    private let patience: TimeAmount
    private let make: @Sendable () -> [UInt8]
    private let first: (@Sendable () -> [UInt8])?
    private let state = Lock(State())

    /// - Parameters:
    ///   - first: a member that the first message to each client has beside others, nil if none.
    ///   - make: a JSON object in one line, without a line end.
    init(
        patience: Duration, first: (@Sendable () -> [UInt8])?, _ make: @escaping @Sendable () -> [UInt8]
    ) {
        self.patience = TimeAmount(patience)
        self.first = first
        self.make = make
    }

    /// Sends messages until the client goes, takes none, or the listener ends.
    func send(to client: Client) async throws {
        let isTaken = state.withLock { state in
            guard state.clients < Self.mostClients else { return false }
            state.clients += 1
            return true
        }
        guard isTaken else {
            client.begin(ServedAnswer(503, [("Retry-After", "10")]))
            return try await client.end()
        }
        defer { state.withLock { $0.clients -= 1 } }
        client.begin(
            ServedAnswer(200, [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")], .growing))
        if !client.isHead { try await client.send(await firstMessage(), within: patience) }
        while !client.isHead {
            try await Task.sleep(for: Self.pause)
            try await client.send(await message(), within: patience)
        }
        try await client.end()
    }

    private func firstMessage() async -> ByteBuffer {
        var message = await message()
        guard let first, let begin = message.readSlice(length: Self.begin.count) else { return message }
        var whole = begin
        whole.writeBytes(first() + Array(",".utf8))
        whole.writeBuffer(&message)
        return whole
    }

    /// The beginning of each message, up to its first member.
    private static let begin = Array("data: {".utf8)

    /// The last message, or a new one if that is as old as the pause between two.
    private func message() async -> ByteBuffer {
        let moment = now()
        let known = state.withLock { state -> ByteBuffer? in
            if let madeAt = state.madeAt, state.isMaking || moment - madeAt < Self.pause * 0.9 { return state.message }
            state.isMaking = true
            return nil
        }
        if let known { return known }
        let object = await aside { [make] _ in make() }
        let message = ByteBuffer(bytes: Array("data: ".utf8) + object + Array("\n\n".utf8))
        state.withLock { state in
            (state.message, state.madeAt, state.isMaking) = (message, now(), false)
        }
        return message
    }
}
