import Testing

@testable import ReelCore

/// Which item is fetched before anybody opens it.
@Suite struct QueueTests {
    @Test func theNextItemIsFetchedOnce() {
        var queue = Prebuffering()
        #expect(queue.played("a", next: "b") == [.fetch("b")])
        #expect(queue.played("a", next: "b") == [])
        queue.finished("b")
        #expect(queue.opened("b") == [])
        #expect(queue.opened("a") == [])
        #expect(queue.played("b", next: "c") == [.fetch("c")])
    }

    @Test func whoGoesElsewhereWantsItNoMore() {
        var queue = Prebuffering()
        _ = queue.played("a", next: "b")
        #expect(queue.opened("z") == [.cancel("b")])
        #expect(queue.opened("z") == [])
        #expect(queue.played("a", next: "b") == [.fetch("b")])
        #expect(queue.closed("a", isPlayed: false) == [.cancel("b")])
        _ = queue.played("a", next: "b")
        #expect(queue.closed("a", isPlayed: true) == [])
        #expect(queue.played("b", next: "c") == [.cancel("b"), .fetch("c")])
        queue.finished("c")
        #expect(queue.opened("z") == [])
    }

    @Test func behindTheLastItemThereIsNone() {
        var queue = Prebuffering()
        #expect(queue.played("a", next: nil) == [])
    }

    @Test(arguments: [
        ["a1.mkv", "a2.mkv", "a10.mkv"], ["Episode 09.mkv", "episode 10.mkv", "Episode 11.mkv"],
        ["01 - x.mp3", "1 - y.mp3", "2.mp3"], ["a", "a b", "ab", "b"], ["film.mkv", "Film2.mkv"],
    ])
    func namesGoByTheirNumbers(names: [String]) {
        #expect(names.shuffled().sorted(by: MediaName.precedes) == names)
        #expect(!MediaName.precedes(names[0], names[0]))
    }

    @Test(arguments: [
        ("film.MKV", true), ("a.b.mp3", true), ("film.srt", false), ("mkv", false), (".mkv", false), ("", false),
    ])
    func mediaIsKnownByItsName(name: String, isMedia: Bool) { #expect(MediaName.isMedia(name) == isMedia) }
}
