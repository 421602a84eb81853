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

    @Test(arguments: ["http://h:0/", "http://h:99999/", "http://h:x/", "http://h ost/", "http:// /"])
    func brokenAuthorityIsRefused(_ text: String) { #expect(ResourceURL(text) == nil) }
}
