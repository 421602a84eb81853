import Testing

@testable import ReelCore

@Suite struct TextTests {
    @Test func aCursorTakesEachByteOnceAndNothingPastTheEnd() {
        var cursor = ByteCursor(Array("ab12-x".utf8)[1...])
        #expect(cursor.peek() == UInt8(ascii: "b") && cursor.peek(4) == UInt8(ascii: "x") && cursor.peek(5) == 0)
        let taken = [cursor.take(UInt8(ascii: "a")), cursor.take(UInt8(ascii: "b"))]
        let numbers = [cursor.number(), cursor.number()]
        #expect(taken == [false, true] && numbers == [12, nil])
        let sign = cursor.take { $0 != UInt8(ascii: "x") }
        // The places are those of the document.
        #expect(Array(sign) == Array("-".utf8) && cursor.rest.startIndex == 5)
        let rest = cursor.take(count: 9)
        #expect(Array(rest) == Array("x".utf8) && cursor.isAtEnd && cursor.peek() == 0)
        let (isTaken, nothing) = (cursor.take(0), cursor.take(count: 1))
        #expect(!isTaken && nothing.isEmpty)
    }

    @Test(
        arguments: [
            ("", []), ("/", []), ("a", ["a"]), ("/a//b/", ["a", "b"]), ("a/\u{301}b", ["a", "\u{301}b"]),
            ("a\u{301}/b\r\n", ["a\u{301}", "b\r\n"]),
        ] as [(String, [String])])
    func aPathIsCutAtEachSlash(_ path: String, _ names: [String]) {
        #expect(pathNames(path).map { Array($0.utf8) } == names.map { Array($0.utf8) })
    }

    @Test(
        arguments: [
            ("0", 0), ("007", 7), ("9223372036854775807", .max), ("9223372036854775808", nil), ("", nil), ("+1", nil),
            ("-1", nil), ("1 ", nil), ("１", nil), ("0x1", nil), ("1_0", nil),
        ] as [(String, Int64?)])
    func aNumberHasDigitsAlone(_ text: String, _ number: Int64?) {
        #expect(decimal(text) == number && decimal(Array(text.utf8)[...]) == number)
    }

    @Test(
        arguments: [
            ("07:08", 25680), ("07:08:09", 25689), ("07:08:09.5 +", 25689), ("23:59:60", 86400), ("24:00", nil),
            ("07:60", nil), ("07:08:61", nil), ("07", nil), ("", nil), ("7:8:", nil),
        ] as [(String, Int64?)])
    func aTimeOfDayIsReadWithItsSecondsOrWithout(_ text: String, _ seconds: Int64?) {
        var cursor = ByteCursor(Array(text.utf8)[...])
        #expect(cursor.timeOfDay() == seconds)
    }
}
