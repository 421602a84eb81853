import ReelCore
import ReelFilesystem

/// The properties of one entry, as far as they are known (RFC 4918, section 15).
struct DAVProperties: Sendable {
    private let name: String
    private let isDirectory: Bool
    /// Bytes; nil if it is not known.
    private var length: Int64?
    /// Seconds since 1970.
    private var modified: Int64?
    private var type: String?
    private var entityTag: EntityTag?

    /// - Parameter attributes: nil if nothing but the name and the kind is known.
    init(name: String, isDirectory: Bool, _ attributes: Attributes?) {
        self.name = name
        self.isDirectory = isDirectory
        modified = attributes?.modified
        guard !isDirectory else { return }
        // A length of 0 may be one that is not known yet, and that of a link is of its target's name.
        length = attributes.flatMap { $0.length == 0 || $0.isLink ? nil : $0.length }
        // The type of other files is the origin's, which only a file that is opened shows.
        let type = mediaType(of: name, told: nil)
        if type != "application/octet-stream" { self.type = type }
    }

    /// Takes over what is known of the open file, as GET shows it.
    mutating func opened(_ file: ServedFile) {
        length = file.length
        modified = file.modified ?? modified
        entityTag = file.entityTag
        type = mediaType(of: file.name, told: file.originType)
    }

    /// The names of the properties that it has, and their values as XML.
    var all: [(name: String, value: String)] {
        var all = [
            ("displayname", markupText(name)), ("resourcetype", isDirectory ? "<D:collection/>" : ""),
        ]
        if let length { all.append(("getcontentlength", "\(length)")) }
        if let modified { all.append(("getlastmodified", httpDateText(modified))) }
        if let type { all.append(("getcontenttype", markupText(type))) }
        if let entityTag { all.append(("getetag", markupText(entityTag.header))) }
        return all
    }

    /// The `response` for it. - Parameter path: encoded.
    func response(_ path: String, _ wanted: PropertyRequest) -> String {
        var (found, missing) = ("", "")
        switch wanted {
        case .all: for (name, value) in all { found += "<D:\(name)>\(value)</D:\(name)>" }
        case .names: for (name, _) in all { found += "<D:\(name)/>" }
        case .some(let names):
            let all = all
            for name in names {
                if let (local, value) = all.first(where: { name.isDAV($0.name) }) {
                    found += "<D:\(local)>\(value)</D:\(local)>"
                } else {
                    missing += Self.empty(name)
                }
            }
        }
        var text = "<D:response><D:href>\(markupText(path))</D:href>"
        // A response has one `propstat` at least.
        if !found.isEmpty || missing.isEmpty { text += Self.propstat(found, "200 OK") }
        if !missing.isEmpty { text += Self.propstat(missing, "404 Not Found") }
        return text + "</D:response>\n"
    }

    private static func propstat(_ properties: String, _ status: String) -> String {
        "<D:propstat><D:prop>\(properties)</D:prop><D:status>HTTP/1.1 \(status)</D:status></D:propstat>"
    }

    private static func empty(_ name: PropertyName) -> String {
        if name.namespace == "DAV:" { return "<D:\(name.local)/>" }
        if name.namespace.isEmpty { return "<\(name.local)/>" }
        return "<x:\(name.local) xmlns:x=\"\(markupText(name.namespace))\"/>"
    }
}

/// A `multistatus` (RFC 4918, section 13): an entry, and the members of a folder. It is made while it is sent, from the
/// directory as it was at its opening, so that it is never in memory as a whole.
struct DAVListing: TextPieces {
    private enum Part { case first, members, end }

    /// Asks for what no listing says of a member.
    typealias Question = @Sendable (_ name: String) async throws(VolumeError) -> Attributes
    /// Members of one piece that are asked for, all at a time.
    static let mostAsked = 16

    private let path: String
    private let first: DAVProperties
    private let wanted: PropertyRequest
    private var part = Part.first
    /// nil if no members are asked for.
    private var walk: FolderWalk?
    private let ask: Question
    /// Whether members without a length are asked for: rclone takes them for empty, and copies them so. No more once
    /// the origin has failed.
    private var asks: Bool

    /// - Parameters:
    ///   - path: of the entry, encoded; that of a folder ends in `/`.
    ///   - directory: nil if no members are asked for.
    ///   - forget: drops the reference that an item with an entry counts.
    init(
        _ path: String, _ first: DAVProperties, _ directory: (any DirectoryHandle)?, _ wanted: PropertyRequest,
        ask: @escaping Question, forget: @escaping @Sendable (NodeID) -> Void
    ) {
        self.path = path
        self.first = first
        self.wanted = wanted
        self.ask = ask
        asks = wanted.asksLength
        walk = directory.map { FolderWalk($0, forget: forget) }
    }

    mutating func next() async -> [UInt8]? {
        var text: [UInt8] = []
        switch part {
        case .first:
            text += "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n".utf8
            text += first.response(path, wanted).utf8
            part = .members
        case .members:
            guard await addMembers(&text) else { break }
            text += "</D:multistatus>\n".utf8
            part = .end
        case .end: return nil
        }
        return text
    }

    /// - Returns: whether there are no more.
    private mutating func addMembers(_ text: inout [UInt8]) async -> Bool {
        let list = self
        var unknown: [String] = []
        let isOver = walk?.add(to: &text, withAttributes: true) { item in
            guard list.asks, item.entry == nil, !item.isDirectory, !item.isLink else {
                return list.response(item.name, isDirectory: item.isDirectory, item.entry?.attributes)
            }
            guard unknown.count < Self.mostAsked else { return nil }
            unknown.append(item.name)
            return ""
        }
        await withTaskGroup(of: (String, Result<Attributes, VolumeError>).self) { group in
            for name in unknown {
                group.addTask {
                    do throws(VolumeError) { return (name, .success(try await list.ask(name))) } catch {
                        return (name, .failure(error))
                    }
                }
            }
            for await (name, result) in group {
                if case .failure(let error) = result, error != .notFound { asks = false }
                text += response(name, isDirectory: false, try? result.get()).utf8
            }
        }
        return isOver ?? true
    }

    private func response(_ name: String, isDirectory: Bool, _ attributes: Attributes?) -> String {
        DAVProperties(name: name, isDirectory: isDirectory, attributes)
            .response(path + reference(name) + (isDirectory ? "/" : ""), wanted)
    }
}
