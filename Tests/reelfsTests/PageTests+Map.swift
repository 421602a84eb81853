import TestKit
import Testing

/// The map of the sources: a page beside each target, and the tables of the pages that list what the sources declare.
extension PageTests {
    /// The targets with a page: each folder of `Sources` but those of C libraries, which are one header each.
    static let targets = lines(of: ["/usr/bin/find", repository + "/Sources", "-mindepth", "1", "-maxdepth", "1"])
        .map { String($0.split(separator: "/").last ?? "") }.filter { !$0.hasPrefix("C") }.sorted()

    /// What sources and tests declare.
    static let declared = Declarations(
        of: lines(of: ["/usr/bin/find", repository + "/Sources", repository + "/Tests", "-name", "*.swift"])
            .map(contents(of:)))

    /// A name in the table of rooms stands for the file of that name, and for the extensions of the type (`Name+…`) in
    /// the same folder that the table does not name.
    @Test("Each source file lies in exactly one room of its target's page", arguments: targets)
    func rooms(target: String) {
        let folder = repository + "/Sources/\(target)/"
        let files = Self.files(of: folder)
        var named: [String: Int] = [:]
        for row in Self.tables(in: contents(of: folder + "README.md")).filter({ $0[0].first == "room" }).joined() {
            guard let room = spans(of: row[0]).first else { continue }
            for name in spans(of: row.last ?? "") {
                let path = (room == target ? "" : room + "/") + name
                named[path.contains(".") ? path : path + ".swift", default: 0] += 1
            }
        }
        let page = "Sources/\(target)/README.md"
        for (file, count) in named {
            let exists = files.contains(file)
            #expect(exists, "\(page) names \(file), which is not there")
            #expect(count == 1, "\(page) names \(file) \(count) times")
        }
        for file in files where named[file] == nil {
            let type = String(file.split(separator: "+")[0]) + ".swift"
            let isExtension = file.contains("+") && named[type] != nil
            #expect(isExtension, "\(page) names \(file) in no room: add it to one")
        }
    }

    @Test("Each Type.member and each type that a page names is declared in the sources")
    func members() {
        let declared = Self.declared
        let files = Set(
            Self.targets.flatMap { Self.files(of: repository + "/Sources/\($0)/") }.flatMap { path in
                path.split { "/.".contains($0) }
            }.map { String($0) })
        let pages = lines(of: ["/usr/bin/find", repository + "/Sources", "-name", "*.md"])
        #expect(pages.count > Self.targets.count)
        for page in pages {
            for span in spans(of: contents(of: page)) {
                let name = span.prefix { $0 != "(" }
                guard name.first?.isUppercase == true, name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "." })
                else { continue }
                let parts = name.split(separator: ".").map { String($0) }
                // `EINTR`, `SOURCE`, `NAME.toml`, `Package.swift` and `Suite.test`, which stands for all tests.
                if parts[0].allSatisfy({ $0.isUppercase || $0.isNumber }) || parts.last == "swift"
                    || span == "Suite.test"
                {
                    continue
                }
                for (type, member) in zip(parts, parts.dropFirst()) {
                    let exists = declared.members[type]?.contains(member) == true
                    #expect(exists, "\(page) names \(span), and the sources declare no \(member) of \(type)")
                }
                if parts.count == 1, page.hasSuffix("/README.md") {
                    let exists = declared.members[parts[0]] != nil || files.contains(parts[0])
                    #expect(exists || Self.targets.contains(parts[0]), "\(page) names \(span), which is no type")
                }
            }
        }
    }

    @Test("The page's threads are those that the sources start")
    func threads() {
        let sources = lines(of: ["/usr/bin/find", repository + "/Sources", "-name", "*.swift"]).map(contents(of:))
        // A queue's name is that of its thread.
        let literals = sources.flatMap { $0.split(separator: "\n") }.compactMap { line in
            ["Thread(\"", "SerialQueue(\""].compactMap { line.firstRange(of: $0) }.first
                .map { line[$0.upperBound...].prefix { $0 != "\"" } }
        }
        // `fuse-\(number)` is `fuse-N` on the page.
        let started = Set(
            literals.map { name in name.firstRange(of: "\\(").map { name[..<$0.lowerBound] + "N" } ?? String(name) })
        let table = Self.tables(in: Self.text(of: "Architecture")).first { $0[0].first == "thread" } ?? []
        let named = Set(table.dropFirst(2).flatMap { spans(of: $0[0]) })
        #expect(started.subtracting(named) == [], "threads without a row in Architecture.md")
        // swift-nio starts its own.
        #expect(named.subtracting(started) == ["NIO-ELT-…"], "Architecture.md names threads that nothing starts")
    }

    @Test("The page's layers import what Package.swift says, and only what stands above them")
    func layers() {
        let table = Self.tables(in: Self.text(of: "Architecture")).first { $0[0].first == "target" } ?? []
        let rows = table.dropFirst(2).map { (target: spans(of: $0[0]).first ?? "", imports: spans(of: $0.last ?? "")) }
        #expect(rows.map(\.target).sorted() == Self.targets)
        let package = contents(of: repository + "/Package.swift")
        for (index, row) in rows.enumerated() {
            // The program's dependencies are a constant, which a fuzzing build uses, too.
            let start = row.target == "reelfs" ? "let parts: [Target.Dependency] = " : "name: \"\(row.target)\""
            let declared = package.firstRange(of: start).map { package[$0.upperBound...] } ?? ""
            let target = declared.firstRange(of: "arget(").map { declared[..<$0.lowerBound] } ?? declared
            let list =
                row.target == "reelfs"
                ? target : target.firstRange(of: "dependencies: [").map { target[$0.upperBound...] }
            // Of `.product(name: "NIOCore", package: "swift-nio")` the package counts.
            let imports = (list ?? "").prefix { $0 != "]" }.split(separator: "\n").flatMap { line in
                line.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
                    .filter { $0.offset % 2 == 1 }.map { String($0.element) }.suffix(
                        line.contains(".product(") ? 1 : .max)
            }
            #expect(Set(row.imports) == Set(imports), "\(row.target)")
            let above = rows.prefix(index).map(\.target)
            let ours = row.imports.filter { Self.targets.contains($0) }
            #expect(Set(ours).isSubset(of: above), "\(row.target)")
        }
    }

    /// The source files below a target's folder, as paths within it. Pages and DocC's catalogue are none.
    private static func files(of folder: String) -> Set<String> {
        Set(
            lines(of: ["/usr/bin/find", folder, "-type", "f", "!", "-name", "*.md", "!", "-path", "*.docc/*"])
                .map { String($0.dropFirst(folder.count)) })
    }

    /// The texts in backquotes, line by line.
    private func spans(of text: some StringProtocol) -> [String] {
        text.split(separator: "\n").flatMap { line in
            line.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .filter { $0.offset % 2 == 1 }.map { String($0.element) }
        }
    }
}

private func lines(of command: [String]) -> [String] {
    (try? ChildProcess.run(command).output.split(separator: "\n").map { String($0) }) ?? []
}

/// The names that sources declare, as far as words show them: nothing is parsed.
struct Declarations {
    /// By type: all that is declared in the files that declare or extend it.
    private(set) var members: [String: Set<String>] = [:]

    private static let types: Set<String> = ["struct", "class", "enum", "actor", "protocol", "typealias", "extension"]
    private static let names: Set<String> = ["func", "var", "let", "case"]

    init(of sources: [String]) {
        for source in sources {
            var types: Set<String> = []
            var names: Set<String> = ["init"]
            // Bytes, as a test without optimisation takes long over characters.
            for line in source.utf8.split(separator: UInt8(ascii: "\n")) {
                guard let first = line.first(where: { $0 != UInt8(ascii: " ") }), first != UInt8(ascii: "/") else {
                    continue
                }
                let words = Self.words(of: line)
                guard let keyword = words.firstIndex(where: { Self.types.contains($0) || Self.names.contains($0) })
                else { continue }
                let following = words[(keyword + 1)...]
                // Up to a type or a value.
                let head = Self.words(of: line.prefix { $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: "=") })
                switch words[keyword] {
                // Both names of `extension Ledger.Action`.
                case "extension": types.formUnion(head.dropFirst(keyword + 1).prefix(2))
                case "var", "let": names.formUnion(head.dropFirst(keyword + 1))
                // `case .head:` of a switch declares nothing.
                case "case": if !String(line)!.contains("case .") { names.formUnion(following) }
                case "func": names.formUnion(following.prefix(1))
                default: types.formUnion(following.prefix(1))
                }
            }
            for type in types { members[type, default: []].formUnion(names.union(types)) }
        }
    }

    private static func words(of line: Substring.UTF8View) -> [String] {
        line.split { byte in
            !(UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                || byte == UInt8(ascii: "_"))
        }.map { String($0) ?? "" }
    }
}
