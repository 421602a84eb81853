import Testing

@testable import ReelCore

@Suite struct ResourceURLTests {
    /// RFC 3986, section 5.4, as far as it leads to http URLs.
    static let references = [
        ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
        ("//g", "http://g/"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"), ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"), ("g?y#s", "http://a/b/c/g?y"), (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
        ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"), ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"), ("g;x=1/../y", "http://a/b/c/y"), ("%2e%2e/g", "http://a/b/g"),
        ("https://h/x", "https://h/x"),
    ]

    @Test(arguments: references) func referenceIsResolvedAsTheRFCSays(_ reference: String, _ expected: String) throws {
        let base = try #require(ResourceURL("http://a/b/c/d;p?q"))
        #expect(base.resolve(reference)?.text == expected)
    }

    @Test(arguments: ["ftp://h/x", "javascript:alert(1)", "mailto:a@b", "http:", "http:///x", "file:///etc/passwd"])
    func whatIsNoHTTPURLIsNone(_ text: String) throws {
        #expect(ResourceURL(text) == nil)
        #expect(try #require(ResourceURL("http://a/b")).resolve(text) == nil)
    }

    /// RFC 3986, section 3.1: letters, digits, `+`, `-` and `.`, a letter first.
    @Test(arguments: ["a_b:c", "1:c", "a b:c", "a,b:c", "(a):c", ":c", "ü:c"])
    func whatStandsBeforeAColonIsASchemeOnlyIfItIsSpelledLikeOne(_ name: String) throws {
        let url = try #require(ResourceURL("http://h/d/")).resolve(name)
        #expect(url.map { $0.path.hasPrefix("/d/") && $0.lastSegment == Array(name.utf8) } == true)
        #expect(URLParts.scheme(of: Array(name.utf8)[...]) == nil)
    }

    /// What curl's parser makes of these is another request than the one that was signed, or another host.
    @Test(arguments: [
        ("http://h/a?", "http://h/a?"), ("http://h/?a=b c", "http://h/?a=b%20c"), ("http://h/%2e%2e/b", "http://h/b"),
        ("http://0x7f000001/", "http://0x7f000001/"), ("http://h/a?x=%zz", "http://h/a?x=%25zz"),
    ])
    func aURLIsSentAsItWasGiven(_ text: String, _ expected: String) { #expect(ResourceURL(text)?.text == expected) }

    @Test(arguments: [
        ("HTTP://Host.Example:80/A b/ü%41", "http://host.example/A%20b/%C3%BC%41"), ("https://h:443", "https://h/"),
        ("http://h:8080/?a=b c", "http://h:8080/?a=b%20c"), ("http://[::1]:81/x", "http://[::1]:81/x"),
        ("http://h/100%", "http://h/100%25"), ("http://h/a%2fb", "http://h/a%2fb"),
        ("http://h/a\r\nX: y", "http://h/a%0D%0AX:%20y"),
    ])
    func spellingIsMadeOne(_ text: String, _ expected: String) {
        #expect(ResourceURL(text)?.text == expected)
    }

    @Test func credentialsAreNowhereButInCredentials() throws {
        let url = try #require(ResourceURL("https://me:p%40ss@h.example/films/?token=secret"))
        #expect(url.credentials == .init(user: "me", password: "p@ss"))
        #expect(!url.text.contains("me") && !url.description.contains("token"))
        #expect(url == ResourceURL("https://h.example/films/?token=secret"))
        #expect(url.resolve("a.mkv")?.credentials == url.credentials)
        #expect(try #require(url.resolve("https://other.example/a.mkv")).credentials == nil)
        #expect(try #require(url.resolve("http://h.example/a.mkv")).credentials == nil)
    }

    @Test(arguments: [
        "http://h:0/", "http://h:99999/", "http://h:x/", "http://h ost/", "http:// /", "http://h::/", "http://h::80/",
        "http://:80/", "http://a:b:80/", "http://[::1/", "http://::1]/", "http://a]b/", "http://a[b/", "http://[]/",
        "http://[h]/", "http://[1]/", "http://[::1]x/", "http://x[::1]/", "http://[::1]]/", "http://[[::1]]/",
        "http://[::1%25eth0]/", "http://[v1.x]/", "http://[::1]:x/", "http://[::1]::80/", "http://u@[::1/",
        "http://u:p#\u{301}@h/", "http://u:p/\u{301}@h/", "http://u:p?\u{301}@h/", "http:/h/", "http:h", "://h/",
        "http:\u{301}//h/", "http:/\u{301}/h/", "\u{301}http://h/",
    ])
    func brokenAuthorityIsRefused(_ text: String) { #expect(ResourceURL(text) == nil) }

    /// RFC 3986, section 3.2.3, lets a port be empty; curl and browsers take it for the standard one.
    @Test(arguments: [
        ("http://h:/x", "http://h/x"), ("http://[::1]:/x", "http://[::1]/x"), ("http://u:@h:/", "http://h/"),
        ("http://[2001:DB8::1.2.3.4]:8080/", "http://[2001:db8::1.2.3.4]:8080/"), ("http://h:0080/", "http://h/"),
    ])
    func oddAuthorityIsRead(_ text: String, _ expected: String) { #expect(ResourceURL(text)?.text == expected) }

    @Test(arguments: [
        ("http://h/\u{301}a", "http://h/%CC%81a"), ("http://h?\u{301}a", "http://h/?%CC%81a"),
        ("http://h/a?\u{301}/../b", "http://h/a?%CC%81/../b"), ("http://h/a#\u{301}/b", "http://h/a"),
        ("http://u@\u{301}h/", "http://\u{301}h/"), ("http://h/..\u{301}/a", "http://h/..%CC%81/a"),
        ("http://h/a/\u{301}../b", "http://h/a/%CC%81../b"),
    ])
    func markHidesNoDelimiter(_ text: String, _ expected: String) throws {
        #expect(ResourceURL(text)?.text.utf8.elementsEqual(expected.utf8) == true)
        let base = try #require(ResourceURL("http://h/x/"))
        #expect(base.resolve(text)?.text.utf8.elementsEqual(expected.utf8) == true)
    }

    @Test func overEightKiBIsNone() throws {
        let base = try #require(ResourceURL("http://h/a/"))
        let fits = "http://h/" + String(repeating: "a", count: ResourceURL.longest - 9)
        #expect(ResourceURL(fits)?.text == fits && ResourceURL(fits + "a") == nil)
        #expect(base.resolve(fits)?.text == fits && base.resolve(fits + "a") == nil)
        // What counts is what would be sent.
        #expect(ResourceURL("http://h/" + String(repeating: "ü", count: 4000)) == nil)
        #expect(base.resolve(String(repeating: "a", count: ResourceURL.longest)) == nil)
        let name = [UInt8](repeating: 0x61, count: 8000)
        #expect(base.child(name, query: [])?.text.utf8.count == 8012)
        #expect(base.child(name, query: name[..<200]) == nil)
        #expect(ResourceURL(String(repeating: " ", count: 100) + "http://h/")?.text == "http://h/")
    }

    @Test func spellingsOfOneLetterAreTwoPasswords() throws {
        let one = try #require(ResourceURL("http://u:%C3%A9@h/a/"))
        let other = try #require(ResourceURL("http://u:e%CC%81@h/a/b"))
        #expect(one.credentials != other.credentials && other.suffix(below: one) == nil)
    }
}
