import Synchronization
import TestKit

/// One source of a mount: a random origin with its mirror, and the folder of the mount in which it lies.
final class RandomSource: Sendable {
    private struct State {
        var server: ScriptedServer
        var copy: ScriptedServer
        var folder = ""
        var isListed = true
        var hasMirror = false
    }

    let origin: RandomOrigin
    private let number: Int
    private let state: Mutex<State>

    /// - Parameter number: a source of its own has a folder of its own, whatever the catalogue becomes.
    init(_ number: Int, seed: UInt64) throws {
        (self.number, origin) = (number, RandomOrigin(seed: seed))
        state = Mutex(State(server: try origin.server(port: 0), copy: try origin.mirror(port: 0)))
    }

    var address: String { state.withLock { $0.server.address } }
    var mirror: String { state.withLock { $0.copy.address } }
    /// Empty, or with the `/` behind it.
    var folder: String { state.withLock { $0.folder } }

    /// Begins as a mount has it first. - Parameter isAlone: it is the root of the mount.
    func enter(isAlone: Bool, hasMirror: Bool) {
        state.withLock { ($0.folder, $0.isListed, $0.hasMirror) = (isAlone ? "" : "\(number)/", true, hasMirror) }
    }

    /// Back in the catalogue, wherever it was last.
    func list() { state.withLock { $0.isListed = true } }

    /// Leaves the catalogue, has another folder there, or another option.
    func change(_ random: inout SeededGenerator) {
        let what = Int.random(in: 0..<4, using: &random)
        let folder = ["\(number)/", "deep/\(number)/", "of a, \(number)/"].randomElement(using: &random)!
        state.withLock { state in
            switch what {
            case 0: state.isListed.toggle()
            case 1: state.hasMirror.toggle()
            default: state.folder = folder
            }
        }
    }

    /// Its table in a catalogue, empty for one that has left it.
    var table: String {
        state.withLock { state in
            guard state.isListed else { return "" }
            return "[[source]]\npath = \"\(state.folder.dropLast())\"\nsource = \"\(state.server.address)\"\n"
                + (state.hasMirror ? "mirror = \"\(state.copy.address)\"\n" : "")
        }
    }

    /// A connection's thread and what the server notes of it are kept until it ends.
    func renew() throws {
        stop()
        let server = try origin.server(port: state.withLock { $0.server.port })
        let copy = try origin.mirror(port: state.withLock { $0.copy.port })
        state.withLock { ($0.server, $0.copy) = (server, copy) }
    }

    func stop() { for server in state.withLock({ [$0.server, $0.copy] }) { server.stop() } }
}
