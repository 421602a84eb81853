import ReelCore

/// Gives the text in pieces, references (`&amp;`, `&#38;`, `&#x26;`) replaced by their UTF-8. What is none stays as it
/// is: a bare `&` in a URL is common.
func withoutReferences(_ text: ArraySlice<UInt8>, _ take: (ArraySlice<UInt8>) -> Void) {
    var copied = text.startIndex
    var index = copied
    while let mark = text[index...].firstIndex(of: UInt8(ascii: "&")) {
        index = mark + 1
        guard let (value, end) = reference(text[index...]) else { continue }
        if mark > copied { take(text[copied..<mark]) }
        take(value[...])
        copied = end
        index = end
    }
    if copied < text.endIndex { take(text[copied...]) }
}

/// The reference whose `&` stands before `text`, and where it ends.
private func reference(_ text: ArraySlice<UInt8>) -> (value: [UInt8], end: Int)? {
    // The longest name has seven letters, the longest number that makes sense as many digits.
    var cursor = ByteCursor(text.prefix(10))
    if cursor.take(UInt8(ascii: "#")) {
        let isHex = cursor.take(UInt8(ascii: "x")) || cursor.take(UInt8(ascii: "X"))
        let digits = cursor.take { isHex ? hexDigit($0) != nil : isDigit($0) }
        guard digits.count <= 7, let number = UInt32(String(decoding: digits, as: UTF8.self), radix: isHex ? 16 : 10),
            number > 0, let scalar = Unicode.Scalar(number)
        else { return nil }
        cursor.take(UInt8(ascii: ";"))
        return (Array(String(scalar).utf8), cursor.rest.startIndex)
    }
    let name = cursor.take { $0 != UInt8(ascii: ";") }
    guard cursor.take(UInt8(ascii: ";")), let scalar = namedReferences[String(decoding: name, as: UTF8.self)] else {
        return nil
    }
    return (Array(String(scalar).utf8), cursor.rest.startIndex)
}

/// The references of XML, and of HTML the letters of Latin-1, which PHP's `htmlentities` writes.
private let namedReferences: [String: Unicode.Scalar] = {
    var result: [String: Unicode.Scalar] = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
    let latin = """
        nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute \
        micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring \
        AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml \
        times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil \
        egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash \
        ugrave uacute ucirc uuml yacute thorn yuml
        """
    for (offset, name) in latin.split(separator: " ").enumerated() {
        result[String(name)] = Unicode.Scalar(0xA0 + UInt8(offset))
    }
    return result
}()
