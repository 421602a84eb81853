import Glibc
import ReelCache
import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// Four films of one length, two of them in a directory, and a volume of them.
func withFilms(
    cap: Int64 = 1 << 30, _ body: (VolumeFixture, [String: FileOrigin], ScriptedServer) throws -> Void
) throws {
    let paths = ["/a.mkv", "/b.mkv", "/sub/c.mkv", "/sub/d.mkv"]
    let films = Dictionary(
        uniqueKeysWithValues: paths.enumerated().map { ($1, FileOrigin(length: 5 << 20 + 77, seed: UInt64($0 + 1))) })
    let server = try ScriptedServer { request in
        let page = { (names: [String]) in
            let lines = names.map { name in
                "<a href=\"\(name)\">\(name)</a>  14-Nov-2023 22:13  \(name.hasSuffix("/") ? "-" : "\(5 << 20 + 77)")\r\n"
            }
            return ServerStep.answer(
                200, [("Content-Type", "text/html")],
                body: "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre>"
                    + "<a href=\"../\">../</a>\r\n\(lines.joined())</pre><hr></body></html>")
        }
        switch request.path {
        case "/": return page(["sub/", "a.mkv", "b.mkv"])
        case "/sub/": return page(["c.mkv", "d.mkv"])
        default: return films[request.path]?.answer(request) ?? ServerStep.answer(404)
        }
    }
    defer { server.stop() }
    let fixture = try VolumeFixture(server.url("/").text, cap: cap, prebuffer: 0)
    defer { fixture.remove() }
    try body(fixture, films, server)
}

func readWhole(_ fixture: VolumeFixture, _ path: String, _ film: FileOrigin) throws {
    let file = try fixture.open(path).get()
    #expect(fixture.readAll(file).isRight(film, 0, film.version.length), "\(path)")
    fixture.volume.close(file)
}

/// Bytes of it that the store has.
func cached(_ fixture: VolumeFixture, _ path: String) -> Int64 {
    fixture.store.objects().filter { $0.key.hasSuffix("/" + path) }.reduce(0) { $0 + $1.cachedBytes }
}

func dataFiles(_ fixture: VolumeFixture) throws -> [String] {
    let end = try ChildProcess.run(["find", fixture.directory + "/cache/objects", "-type", "f"])
    return end.output.split(separator: "\n").map { String($0) }
}

/// Turns a bit of the one data file.
func flip(_ fixture: VolumeFixture, at offset: Int64) throws {
    let files = try dataFiles(fixture)
    try #require(files.count == 1)
    let descriptor = open(files[0], O_RDWR | O_CLOEXEC)
    defer { close(descriptor) }
    var byte: UInt8 = 0
    try #require(pread(descriptor, &byte, 1, off_t(offset)) == 1)
    byte ^= 0x10
    try #require(pwrite(descriptor, &byte, 1, off_t(offset)) == 1)
}
