import ReelCore
import ReelVolume

@testable import ReelFuse
@testable import reelfs

extension FuzzTarget {
    /// What users, their files, the kernel and clients of the control socket say.
    static let words = [
        FuzzTarget("control") { bytes in
            for line in bytes.split(separator: 0x0A) {
                if let request = try? ControlRequest(line: line) {
                    let written = encodeLine(request)
                    let again = try? ControlRequest(line: written.dropLast())
                    try require(again.map { encodeLine($0) } == written, "another \(request)")
                }
                // And what a client gets from whoever listens there.
                if let answer = decodeLine(ControlAnswer.self, line) { _ = encodeLine(answer) }
            }
        },
        FuzzTarget("options") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            var options = MountOptions()
            for option in givenOptions(text) { try? options.apply(option) }
            try require(options.timeout > 0 && options.cacheSize > 0 && options.refresh >= 0, "\(options)")
            var sloppy = MountOptions()
            for option in givenOptions(text) {
                try? sloppy.apply(option, isSloppy: true)
                _ = option.visible
            }
            for option in (try? parseOptionFile(text, path: "/file")) ?? [] {
                var options = MountOptions()
                try? options.apply(option)
                _ = option.visible
            }
            _ = (redacted(text), withoutQuery(text), withoutSecrets(text))
        },
        FuzzTarget("credentials") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            do {
                let found = try CredentialFile(parsing: text, path: "/file")
                for header in found.headers {
                    let isOne = !(header.name + header.value).utf8.contains { $0 == 0x0A || $0 == 0x0D || $0 == 0 }
                    try require(isOne, "the header \(header)")
                }
                let source = "http://host:80/films/?a=b"
                let joined = ResourceURL(found.source(ResourceURL(source)!))
                try require(joined?.text == ResourceURL(source)?.text, "another source: \(joined?.text ?? "none")")
                try require(joined?.credentials?.user ?? "" == found.user ?? "", "another user than \(found)")
                try require(joined?.credentials?.password ?? "" == found.password ?? "", "another password: \(found)")
            } catch let failure as Failure {
                // The sentence is for everybody to read.
                let values = text.split(whereSeparator: \.isNewline).flatMap { $0.split(separator: "=").dropFirst() }
                let isTold = values.contains { $0.utf8.count > 20 && "\(failure)".contains($0) }
                try require(!isTold, "\(failure)")
            }
        },
        FuzzTarget("catalogue") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            do {
                let catalogue = try Catalogue(parsing: text, path: "/all.toml", MountOptions())
                let paths = catalogue.sources.map(\.path)
                for (index, path) in paths.enumerated() {
                    let areNames = path.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." && !$0.contains("/") }
                    try require(areNames && !path.isEmpty, "the path \(path)")
                    for other in paths[..<index] {
                        try require(zip(path, other).contains { $0 != $1 }, "\(path) lies in \(other)")
                    }
                }
            } catch let failure as Failure {
                try require(failure.sentence.utf8.count < 1000, "\(failure)")
            }
        },
        FuzzTarget("resolver") { bytes in
            guard case .success(let place) = ResolverCommand.read(bytes, now: 1_700_000_000) else { return }
            try require(["http", "https"].contains(place.url.scheme), "the place \(place.url)")
            try require(place.key.map { (1...1024).contains($0.utf8.count) } ?? true, "a key of another length")
            let longest = Duration.seconds(3651 * 86_400)
            try require(place.lifetime.map { .zero...longest ~= $0 } ?? true, "the lifetime \(place.lifetime!)")
        },
        FuzzTarget("mountinfo") { bytes in
            for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
                if let mount = Mount(line: line) { _ = (mount.isOurs, mount.options) }
            }
        },
    ]
}
