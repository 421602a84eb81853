import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Complete files are read by the kernel itself, where it may; the promises hold all the same.
    @Suite struct PassthroughTests {
        /// What the daemon itself has served so far, as `reelfs status --json` says.
        private func served(_ mount: Mounted) throws -> String {
            let text = try ChildProcess.run([program, "status", mount.path, "--json"]).output
            let part = text.split(separator: "\"bytesServed\":").last ?? ""
            return String(part.prefix { $0.isNumber })
        }

        /// Passthrough begins when a file is durable. - Parameter length: of the one file that is cached.
        private func waitUntilDurable(_ scene: Scene, _ length: Int64) {
            let blocks = Int((length + BlockSize.block - 1) / BlockSize.block)
            #expect(eventually { CacheFolder(path: scene.cache).committedBlocks == blocks }, "not committed")
        }

        @Test("A complete file is read past the daemon, in part cached ones are not, and all bytes are right")
        func completeFile() throws {
            let film = FileOrigin(length: 9 << 20 + 11)
            try withMount(of: film) { scene, server, mount in
                guard geteuid() == 0 else { return }
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                waitUntilDurable(scene, film.length)
                mount.dropPages("film.mkv")
                let before = try served(mount)
                let bytes = server.bodyBytesSent
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                let file = try OpenDescriptor(mount.file("film.mkv"))
                try file.mapped { #expect(film.difference(from: Array($0)) == nil) }
                #expect(try file.bytes(at: 5_000_001, count: 100_000).count == 100_000)
                #expect(try served(mount) == before)
                #expect(server.bodyBytesSent - bytes < 16)
            }
        }

        @Test("What is read past the daemon is not evicted under its reader, nor under a mapping; the cap holds")
        func pressure() throws {
            let small = FileOrigin(length: 6 << 20 + 5, seed: 1)
            let large = FileOrigin(length: 48 << 20, seed: 2)
            let server = try folderServer(["large.mkv": large, "small.mkv": small])
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address, ["--cache-size", "16M"])
                #expect(small.difference(inFile: mount.file("small.mkv")) == nil)
                waitUntilDurable(scene, small.length)
                mount.dropPages("small.mkv")
                let descriptor = open(mount.file("small.mkv"), O_RDONLY | O_CLOEXEC)
                let length = Int(small.length)
                let mapping = try #require(mmap(nil, length, PROT_READ, MAP_SHARED, descriptor, 0))
                defer { munmap(mapping, length) }
                for pass in 0..<2 {
                    #expect(large.difference(inFile: mount.file("large.mkv")) == nil)
                    #expect(CacheFolder(path: scene.cache).bytesOnDisk <= 24 << 20)
                    let seen = UnsafeRawBufferPointer(start: mapping, count: length)
                    #expect(small.version.bytes.firstDifference(in: seen, from: 0) == nil)
                    // The second time only the mapping is left.
                    if pass == 0 { close(descriptor) }
                }
            }
        }

        @Test("A reader that outlives its mount sees no hole")
        func lingeringReader() throws {
            let small = FileOrigin(length: 6 << 20 + 5, seed: 1)
            let large = FileOrigin(length: 48 << 20, seed: 2)
            let server = try folderServer(["large.mkv": large, "small.mkv": small])
            defer { server.stop() }
            try withScene { scene in
                var mount = try scene.mount(server.address, ["--cache-size", "16M"])
                #expect(small.difference(inFile: mount.file("small.mkv")) == nil)
                waitUntilDurable(scene, small.length)
                let file = try OpenDescriptor(mount.file("small.mkv"))
                mount.crash()
                umount2(mount.path, Int32(MNT_DETACH))
                mount = try scene.mount(server.address, ["--cache-size", "16M"])
                #expect(large.difference(inFile: mount.file("large.mkv")) == nil)
                #expect(try file.bytes(at: 0, count: Int(small.length)) == small.whole)
            }
        }
    }
}
