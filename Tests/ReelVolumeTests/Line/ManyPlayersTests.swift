import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Several programs on a line that all requests share evenly, through one mount, in virtual time.
@Suite struct ManyPlayersTests {
    /// How a film was shown that has no buffer of its own: later wherever bytes come more than 0.2 s late.
    private struct Show: Sendable {
        var late = Duration.zero
        var stops = 0
    }

    private struct Trouble: Error { let text: String }

    /// Films by their names, in one folder.
    private final class Library: Sendable {
        let films: [String: FileOrigin]

        init(_ files: [(name: String, length: Int64)]) {
            films = Dictionary(
                uniqueKeysWithValues: files.enumerated().map { number, file in
                    (file.name, FileOrigin(length: file.length, seed: UInt64(number + 1)))
                })
        }

        func answer(_ request: ServerRequest) -> [ServerStep]? {
            films[String(request.path.dropFirst())]?.answer(request)
                ?? ServerStep.listing(films.map { ($0, $1.version.length) }.sorted { $0.0 < $1.0 })
        }
    }

    private static let piece: Int64 = 128 << 10
    private static let trip = Duration.milliseconds(40)

    /// Plays a film to its end as it is due, and asks as the kernel does: half a mebibyte ahead, two blocks at a time.
    /// - Parameter thread: of the program that plays it.
    private static func play(
        _ mount: SimulatedWorld.Mount, _ name: String, length: Int64, rate: Double, by thread: Int32
    ) throws -> Show {
        var show = Show()
        let begin = now()
        let file = try mount.open(name, by: thread).get()
        defer { mount.volume.close(file) }
        var ahead: [(range: ByteRange, read: TestRead)] = []
        var (place, asked) = (Int64(0), Int64(0))
        while place < length {
            let due = begin + show.late + .seconds(Double(place) / rate)
            Simulation.sleep(max(.zero, due - now()))
            while asked < min(length, place + 4 * BlockSize.block) {
                let range = ByteRange(asked, min(length, asked + 2 * BlockSize.block))
                ahead.append((range, mount.park(file, range.lower, Int(range.count), by: thread)))
                asked = range.upper
            }
            place = min(length, place + piece)
            while let first = ahead.first, first.range.lower < place {
                guard case .success = first.read.wait(atMost: .seconds(60)) else {
                    throw Trouble(text: "\(name) at \(place)")
                }
                guard first.range.upper <= place else { break }
                ahead.removeFirst()
            }
            if now() - due > .milliseconds(200) {
                show.late += now() - due
                show.stops += 1
            }
        }
        return show
    }

    /// Reads the beginnings of files one after another until they are over.
    /// - Parameter next: the number of the file that comes next, nil if none does.
    private static func scan(_ mount: SimulatedWorld.Mount, _ next: () -> Int?) {
        while let number = next() {
            guard case .success(let file) = mount.open("s\(number).mp4", by: getpid()) else { return }
            for place in 0..<2 {
                _ = mount.park(file, Int64(place) * piece, Int(piece), by: getpid()).wait()
            }
            mount.volume.close(file)
            Simulation.sleep(.milliseconds(60))
        }
    }

    /// - Parameters:
    ///   - count: of films of this many seconds that begin at once.
    ///   - rate: of each, in bytes a second; and what the line carries.
    ///   - scanners: that begin a moment later.
    private func shows(
        of count: Int, seconds: Int64, rate: Double, capacity: Int64, thread: Int32, scanners: Int = 0
    ) throws -> [Show] {
        let length = Int64(rate) * seconds
        let names = (0..<count).map { "f\($0).mkv" }
        let library = Library(names.map { ($0, length) } + (0..<200).map { ("s\($0).mp4", 40_000_000) })
        return try SimulatedWorld.run(["http://h": { library.answer($0) }]) { world in
            let mount = try world.mount(
                "http://h/", VolumeOptions(prebuffer: 0), wire: (trip: Self.trip, capacity: capacity))
            let shows = Lock<[Result<Show, any Error>]>([])
            let players = names.map { name in
                Thread("player") {
                    let show = Result { try Self.play(mount, name, length: length, rate: rate, by: thread) }
                    shows.withLock { $0.append(show) }
                }
            }
            let isOver = Lock(false)
            let next = Lock(0)
            let scans = (0..<scanners).map { _ in
                Thread("scanner") {
                    Simulation.sleep(.milliseconds(100))
                    Self.scan(mount) {
                        if isOver.withLock({ $0 }) { return nil }
                        return next.withLock { number in
                            defer { number += 1 }
                            return number
                        }
                    }
                }
            }
            for player in players { player?.join() }
            isOver.withLock { $0 = true }
            for scan in scans { scan?.join() }
            return try shows.withLock { $0 }.map { try $0.get() }
        }
    }

    /// By one program that opens many files, as a server of films has it.
    @Test func tenFilmsOnALineThatJustCarriesThemBeginWithinASecondAndPlayOn() throws {
        let shows = try shows(of: 10, seconds: 20, rate: 1e6, capacity: 12_500_000, thread: getpid())
        // The line takes 0.42 s for the first half a mebibyte of all, and each of them waits for three round trips.
        for show in shows { #expect(show.late < .milliseconds(600) && show.stops <= 1, "\(shows)") }
    }

    /// A program that begins to scan at the same time has its first files looked at as if it played them.
    @Test func aFilmThatBeginsWithAScanStopsForHalfASecondAtMost() throws {
        let shows = try shows(of: 1, seconds: 8, rate: 2.5e6, capacity: 5_000_000, thread: getppid(), scanners: 8)
        #expect(shows[0].late < .milliseconds(600) && shows[0].stops <= 2, "\(shows)")
    }
}
