import Testing

@testable import ReelCore

/// Which item is fetched before anybody opens it.
@Suite struct QueueTests {
    @Test func theNextItemIsFetchedOnce() {
        var queue = Prebuffering()
        #expect(queue.played("a", next: "b", isThere: false) == [.fetch("b")])
        #expect(queue.played("a", next: "b", isThere: false) == [])
        #expect(queue.opened("b") == [])
        #expect(queue.opened("a") == [])
        #expect(queue.played("b", next: "c", isThere: false) == [.cancel("b"), .fetch("c")])
    }

    @Test func moreOfItIsFetchedOnceItsPredecessorIsThere() {
        var queue = Prebuffering()
        #expect(queue.played("a", next: "b", isThere: false) == [.fetch("b")])
        #expect(queue.played("a", next: "b", isThere: true) == [.more("b")])
        #expect(queue.played("a", next: "b", isThere: true) == [])
        #expect(queue.played("b", next: "c", isThere: true) == [.cancel("b"), .fetch("c"), .more("c")])
    }

    @Test func aCompleteItemHeldOpenForLongIsPlayed() {
        var queue = Prebuffering()
        queue.holds("a", now: .seconds(100))
        queue.holds("a", now: .seconds(120))
        #expect(queue.isJudging && queue.judge(now: .seconds(129)) == nil)
        queue.released("a")
        #expect(queue.judge(now: .seconds(130)) == "a")
        #expect(queue.judge(now: .seconds(200)) == nil && !queue.isJudging)
        #expect(queue.played("a", next: "b", isThere: true) == [.fetch("b"), .more("b")])
        // Nobody saw how far it was read.
        #expect(queue.closed("a", isPlayed: false) == [])
        queue.released("a")
        #expect(!queue.isHeld("a"))
        #expect(queue.opened("z") == [.cancel("b")])
    }

    @Test func aScanOfCompleteItemsPlaysNone() {
        var queue = Prebuffering()
        // One after another, each for a while.
        for number in 0..<1000 {
            queue.holds("\(number)", now: .seconds(20 * number))
            #expect(queue.judge(now: .seconds(20 * number + 19)) == nil)
            queue.released("\(number)")
        }
        #expect(!queue.isJudging)
        // Many at a time, for good.
        for number in 0..<1000 { queue.holds("\(number)", now: .seconds(30_000)) }
        #expect(queue.judge(now: .seconds(30_031)) == nil)
        #expect(!queue.isJudging)
    }

    @Test func whoGoesElsewhereWantsItNoMore() {
        var queue = Prebuffering()
        _ = queue.played("a", next: "b", isThere: false)
        #expect(queue.opened("z") == [.cancel("b")])
        #expect(queue.opened("z") == [])
        #expect(queue.played("a", next: "b", isThere: false) == [.fetch("b")])
        #expect(queue.closed("a", isPlayed: false) == [.cancel("b")])
        _ = queue.played("a", next: "b", isThere: false)
        #expect(queue.closed("a", isPlayed: true) == [])
        #expect(queue.played("b", next: "c", isThere: false) == [.cancel("b"), .fetch("c")])
    }

    @Test func behindTheLastItemThereIsNone() {
        var queue = Prebuffering()
        #expect(queue.played("a", next: nil, isThere: true) == [])
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
