import ReelCore
import ReelFilesystem
import ReelSources

/// Files that stand for symbolic links, as rclone writes them: `NAME.rclonelink` holds the target of the link NAME.
///
/// With `--links` such an entry is named NAME. Its URL shows what it is.
enum LinkFile {
    static let suffix = Array(".rclonelink".utf8)
    /// PATH_MAX of Linux, less the zero byte behind it.
    static let longestTarget = 4095

    /// Whether an entry of this name is shown as a link.
    static func isLink(_ name: String, _ url: ResourceURL?) -> Bool {
        guard let url, hasSuffix(url) else { return false }
        return url.lastSegment.elementsEqual(Array(name.utf8) + suffix)
    }

    /// A look that costs little: no program that writes these escapes a letter or a dot.
    fileprivate static func hasSuffix(_ url: ResourceURL) -> Bool {
        url.text.utf8.suffix(suffix.count).elementsEqual(suffix)
    }

    /// The target of a link; nil where it might lead out of the tree.
    ///
    /// Only its beginning may go up: further on `..` would go up from where another link leads.
    /// - Parameters:
    ///   - bytes: of the file.
    ///   - depth: how many folders are above the link, the root not among them.
    static func target(_ bytes: [UInt8], depth: Int) -> String? {
        guard (1...longestTarget).contains(bytes.count), !bytes.contains(0), bytes[0] != UInt8(ascii: "/"),
            let text = String(validating: bytes, as: UTF8.self)
        else { return nil }
        let parts = text.utf8.split(separator: UInt8(ascii: "/")).filter { !$0.elementsEqual(".".utf8) }
        let isUp = { (part: Substring.UTF8View) in part.elementsEqual("..".utf8) }
        let ups = parts.prefix(while: isUp).count
        return ups <= depth && !parts.dropFirst(ups).contains(where: isUp) ? text : nil
    }
}

extension EntryList {
    /// The same entries, those of links under the names of the links.
    func namingLinks(_ isWanted: Bool) -> EntryList {
        guard isWanted, indices.contains(where: { isLinkFile($0) }) else { return self }
        var builder = Builder(limit: count)
        for place in indices {
            var entry = self[place]
            if isLinkFile(place) {
                let name = String(entry.name.dropLast(LinkFile.suffix.count))
                // A file of that name is the one that it leads to.
                if self.place(of: name) == nil { entry.name = name }
            }
            builder.append(entry, tag: tag(at: place))
        }
        return builder.list()
    }

    /// Whether an entry is a file that stands for a link, and has its whole name.
    private func isLinkFile(_ place: Int) -> Bool {
        let name = name(at: place)
        guard name.utf8.count > LinkFile.suffix.count,
            name.utf8.suffix(LinkFile.suffix.count).elementsEqual(LinkFile.suffix),
            !isDirectory(at: place), length(at: place) ?? 1 <= LinkFile.longestTarget,
            LinkFile.hasSuffix(url(at: place))
        else { return false }
        return LinkFile.isLink(String(name.dropLast(LinkFile.suffix.count)), url(at: place))
    }

    /// Whether an entry is shown as a link.
    func isLink(at place: Int) -> Bool { !isDirectory(at: place) && LinkFile.isLink(name(at: place), url(at: place)) }
}

extension SourceEntry {
    /// With its whole name, where it was remembered under that of a link.
    var unlinked: SourceEntry {
        guard !isDirectory, LinkFile.isLink(name, url) else { return self }
        var entry = self
        entry.name += String(decoding: LinkFile.suffix, as: UTF8.self)
        return entry
    }
}

extension Volume {
    package func readLink(_ id: NodeID, _ view: VolumeView, _ completion: @escaping Completion<String>) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard node.isLink else { return completion(.failure(.unsupported)) }
        let depth = (tree.nodes.path(of: node)?.utf8.count { $0 == UInt8(ascii: "/") }) ?? 0
        let opened: Completion<any FileHandle> = { [self] result in
            guard case .success(let file) = result else { return completion(result.map { _ in "" }) }
            // The thread may be the transport's.
            services.later { [self] in
                readAll(of: file) { [self] result in
                    close(file)
                    completion(
                        result.flatMap { LinkFile.target($0, depth: depth).map { .success($0) } ?? .failure(.leadsOut) }
                    )
                }
            }
        }
        open(id, by: nil, view, opened)
    }

    /// The bytes of a small file; of a longer one so many that it is too long for a link.
    private func readAll(of file: any FileHandle, _ completion: @escaping Completion<[UInt8]>) {
        var answer = ReadAnswer.failed(.failed)
        let bytes = [UInt8](unsafeUninitializedCapacity: LinkFile.longestTarget + 1) { buffer, count in
            let buffer = UnsafeMutableRawBufferPointer(buffer)
            answer = read(file, offset: 0, into: buffer) { LinkRead(completion) }
            if case .read(let read) = answer { count = read }
        }
        switch answer {
        case .read: completion(.success(bytes))
        case .failed(let error): completion(.failure(error))
        case .parked: break
        }
    }
}

/// A read of a link's file that waits for its bytes.
private final class LinkRead: ParkedRead {
    private let completion: Completion<[UInt8]>

    init(_ completion: @escaping Completion<[UInt8]>) { self.completion = completion }

    func succeed(_ bytes: UnsafeRawBufferPointer) { completion(.success(Array(bytes))) }
    func fail(_ error: VolumeError) { completion(.failure(error)) }
}
