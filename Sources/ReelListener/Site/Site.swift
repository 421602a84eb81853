import NIOCore
import ReelCore
import ReelFilesystem
import ReelThreads

/// Answers the requests of all connections.
struct Site: Sendable {
    let tree: ServedTree
    let admission: Admission
    /// What else is served, by path.
    let documents: [String: ServedDocument]
    /// What can be asked for, by path.
    let calls: [String: ServedCall]
    /// How many texts of each kind are made and sent at once: each costs a piece, and a text of the program all of its
    /// bytes.
    private let texts = Slots(32)
    private let pages = Slots(32)
    private let playlists = Slots(8)
    /// Whether names are being sorted, all of which are in memory then: those of one folder at a time.
    private let isSorting = Monitor(false)

    init(
        tree: ServedTree, admission: Admission, documents: [String: ServedDocument], calls: [String: ServedCall]
    ) {
        self.tree = tree
        self.admission = admission
        self.documents = documents
        self.calls = calls
    }

    /// A block: a piece that lies in one is verified once. Each connection that sends holds one.
    private static let piece = BlockSize.block
    /// Bytes that are lent cost no memory, but their extent cannot be evicted until the client has taken them. Half of
    /// one: each piece costs two changes of threads.
    private static let lentPiece = BlockSize.extent / 2
    /// A file may change between its lookup and its open.
    private static let mostTries = 3

    /// Answers one request. - Throws: when the connection has to end, as the answer cannot be finished or says so.
    func answer(_ request: ServedRequest, to client: Client) async throws {
        let call = calls[String(decoding: request.path, as: UTF8.self)]
        let isChanging = request.method == "POST" && call?.isChanging == true
        if let refusal = admission.refusal(request, isCall: call != nil, isChanging: isChanging) {
            return try await send(refusal, to: client)
        }
        client.connections.admit(client.channel)
        if let call { return try await send(await call.answer(request), to: client) }
        let path = ServedPath(request.path)
        if let other = DAVMethod.answer(request, path) { return try await send(other, to: client) }
        switch path {
        case .nowhere:
            let document = documents[String(decoding: request.path, as: UTF8.self)]
            if let events = document?.events { return try await events.send(to: client) }
            guard let document else { return try await send(Self.missing, to: client) }
            try await send(in: texts, to: client) { await document.answer(request) }
        case .top: try await send(Page.answer(), to: client)
        case .tree(let names, let isFolder, let root):
            var properties: PropertyRequest.Question?
            if request.method == "PROPFIND" {
                switch PropertyRequest.read(request) {
                case .failure(let refusal): return try await send(refusal.answer, to: client)
                case .success(let question): properties = question
                }
            }
            for attempt in 1...Self.mostTries {
                do {
                    return try await answer(request, names, isFolder: isFolder, root, properties, to: client)
                } catch VolumeError.stale where attempt < Self.mostTries {
                    continue
                } catch let error as VolumeError {
                    return try await send(ServedAnswer(error), to: client)
                }
            }
        }
    }

    /// - Parameter properties: what a PROPFIND asks for, nil for GET and HEAD.
    /// - Throws: `VolumeError` where nothing was sent yet.
    private func answer(
        _ request: ServedRequest, _ names: [String], isFolder: Bool, _ root: ServedRoot,
        _ properties: PropertyRequest.Question?, to client: Client
    ) async throws {
        let place = try await tree.find(names)
        defer { tree.forget(place) }
        let node = place.node
        if place.attributes.isLink {
            return try await send(link(request, names, root, to: try await tree.target(of: node)), to: client)
        }
        if isFolder, !place.attributes.isDirectory { throw VolumeError.notFound }
        if let properties { return try await send(properties, of: place, names, asked: request.path, to: client) }
        if place.attributes.isDirectory {
            return try await sendFolder(request, names, isFolder: isFolder, root, node, to: client)
        }
        let file = try await tree.open(node)
        defer { tree.filesystem.close(file) }
        let answer = served(names, node, file).answer(request)
        // While another status can still be sent.
        var buffer = ByteBuffer()
        if !client.isHead { try await readFirst(answer.body, of: file, into: &buffer) }
        client.begin(answer)
        do {
            if !client.isHead { try await sendBody(answer.body, of: file, &buffer, to: client) }
            try await client.end()
        } catch let error as VolumeError {
            throw CutShort(reason: error)
        }
    }

    private func served(_ names: [String], _ node: NodeID, _ file: any FileHandle) -> ServedFile {
        let type = try? tree.filesystem.extendedAttribute("user.mime_type", of: node).get()
        return ServedFile(
            name: names.last ?? "", length: file.length, entityTag: file.entityTag, modified: file.modified,
            originType: type.map { String(decoding: $0, as: UTF8.self) })
    }

    /// The answer to PROPFIND (RFC 4918, section 9.1). Only a file that is asked for alone is opened: its tag is known
    /// then.
    private func send(
        _ properties: PropertyRequest.Question, of place: ServedTree.Place, _ names: [String],
        asked path: ArraySlice<UInt8>, to client: Client
    ) async throws {
        let (node, attributes) = (place.node, place.attributes)
        var first = DAVProperties(name: names.last ?? "", isDirectory: attributes.isDirectory, attributes)
        if !attributes.isDirectory {
            let file = try await tree.open(node)
            defer { tree.filesystem.close(file) }
            first.opened(served(names, node, file))
        }
        let directory = properties.isDeep && attributes.isDirectory ? try await tree.directory(node) : nil
        // As the client encodes it: neon's clients know themselves by nothing else.
        let isWhole = !attributes.isDirectory || path.last == UInt8(ascii: "/")
        let list = DAVListing(
            String(decoding: path, as: UTF8.self) + (isWhole ? "" : "/"), first, directory, properties.wanted
        ) { [tree] name throws(VolumeError) in
            try await tree.attributes(of: name, in: node)
        } forget: { [tree] in
            tree.filesystem.forget($0, count: 1)
        }
        try await send(in: pages, to: client) { ServedAnswer(207, DAVMethod.headers, .pieces(list)) }
    }

    /// Sends the client to where a link leads.
    private func link(
        _ request: ServedRequest, _ names: [String], _ root: ServedRoot, to target: String
    ) -> ServedAnswer {
        var names = names.dropLast()
        for part in pathNames(target) where part != "." {
            if part != ".." { names.append(part) } else { _ = names.popLast() }
        }
        let path = ServedPath.tree(Array(names), isFolder: false, root: root).text ?? "/"
        return ServedAnswer(307, [("Location", path + request.queryText)])
    }

    private func sendFolder(
        _ request: ServedRequest, _ names: [String], isFolder: Bool, _ root: ServedRoot, _ node: NodeID,
        to client: Client
    ) async throws {
        let path = ServedPath.tree(names, isFolder: true, root: root).text ?? "/"
        guard isFolder else {
            return try await send(ServedAnswer(301, [("Location", path + request.queryText)]), to: client)
        }
        let directory = try await tree.directory(node)
        if let query = request.query, let form = FolderPlaylist.Form(rawValue: String(decoding: query, as: UTF8.self)) {
            let base = (admission.base(request) ?? "") + path
            return try await send(in: playlists, to: client) {
                let list = await aside { [isSorting] isCancelled in
                    isSorting.wait { isBusy -> Void? in
                        if isBusy { return nil }
                        isBusy = true
                        return ()
                    }
                    defer { isSorting.withLock { $0 = false } }
                    return FolderPlaylist(form, base: base, directory, isCancelled: isCancelled)
                }
                return ServedAnswer(200, [("Content-Type", form.mediaType)], .pieces(list))
            }
        }
        let headers = [
            ("Content-Type", "text/html; charset=utf-8"), ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
        ]
        let page = FolderPage(names, directory) { [tree] in tree.filesystem.forget($0, count: 1) }
        try await send(in: pages, to: client) { ServedAnswer(200, headers, .pieces(page)) }
    }

    /// Makes and sends a text, unless too many are under way.
    private func send(in slots: Slots, to client: Client, _ make: () async -> ServedAnswer) async throws {
        guard slots.take() else {
            let refusal = ServedAnswer(503, saying: "Too many such texts are being sent.", [("Retry-After", "10")])
            return try await send(refusal, to: client)
        }
        defer { slots.give() }
        try await send(await make(), to: client)
    }

    /// An answer without a file.
    private func send(_ answer: ServedAnswer, to client: Client) async throws {
        client.begin(answer)
        if !client.isHead { try await sendText(answer.body, to: client) }
        try await client.end()
        if answer.isLast { throw ConnectionOver() }
    }

    private func sendText(_ body: ServedAnswer.Body, to client: Client) async throws {
        if case .text(let bytes) = body { try await client.send(text: bytes) }
        guard case .pieces(var pieces) = body else { return }
        while let piece = await pieces.next() {
            try Task.checkCancellation()
            // Between two pieces, others get the thread.
            if piece.isEmpty { await Task.yield() }
            try await client.send(text: piece)
        }
    }

    /// Reads the bytes of the file with which a body begins, if it has any.
    private func readFirst(
        _ body: ServedAnswer.Body, of file: any FileHandle, into buffer: inout ByteBuffer
    ) async throws(VolumeError) {
        switch body {
        case .none, .text, .pieces: break
        case .file(let range):
            guard !range.isEmpty else { return }
            try await read(range.lower, before: range.upper, of: file, into: &buffer)
        case .growing: try await read(0, before: Self.unbounded.upper, of: file, into: &buffer)
        }
    }

    /// - Parameter buffer: as `readFirst` left it. The one of this answer, so that a client costs one piece.
    private func sendBody(
        _ body: ServedAnswer.Body, of file: any FileHandle, _ buffer: inout ByteBuffer, to client: Client
    ) async throws {
        switch body {
        case .none, .text, .pieces: break
        case .file(let range): try await send(range, of: file, isWhole: true, &buffer, to: client)
        case .growing: try await send(Self.unbounded, of: file, isWhole: false, &buffer, to: client)
        }
    }

    /// - Parameters:
    ///   - isWhole: the client was promised all of the range.
    ///   - buffer: holds the first bytes of the range, or none; empty afterwards.
    private func send(
        _ range: ByteRange, of file: any FileHandle, isWhole: Bool, _ buffer: inout ByteBuffer, to client: Client
    ) async throws {
        var offset = range.lower
        while offset < range.upper {
            if buffer.readableBytes == 0, isWhole, let bytes = lend(offset, before: range.upper, of: file) {
                try await client.send(bytes)
                offset = bytes.range.upper
                continue
            }
            if buffer.readableBytes == 0 { try await read(offset, before: range.upper, of: file, into: &buffer) }
            guard buffer.readableBytes > 0 else {
                if isWhole { throw VolumeError.failed }
                return
            }
            try await client.send(buffer)
            offset += Int64(buffer.readableBytes)
            buffer.clear()
        }
    }

    private func lend(_ offset: Int64, before end: Int64, of file: any FileHandle) -> LentBytes? {
        let end = min(end, offset - offset % Self.lentPiece + Self.lentPiece)
        return tree.filesystem.lend(file, ByteRange(offset, end))
    }

    /// Reads up to the end of a block.
    private func read(
        _ offset: Int64, before end: Int64, of file: any FileHandle, into buffer: inout ByteBuffer
    ) async throws(VolumeError) {
        let end = min(end, offset - offset % Self.piece + Self.piece)
        try await tree.read(file, offset, count: Int(end - offset), into: &buffer)
    }

    /// The range of a file whose length is not known.
    private static let unbounded = ByteRange(0, BlockSize.openEnd)

    private static let missing = ServedAnswer(VolumeError.notFound)
}

/// A text of the program that is made for each request, or again and again.
package struct ServedDocument: Sendable {
    let type: String
    private let make: @Sendable (ServedRequest, () -> Bool) -> ServedAnswer
    /// nil if it is one text.
    fileprivate let events: EventStream?

    /// - Parameter type: of its media, with its parameters.
    package init(type: String, _ make: @escaping @Sendable () -> [UInt8]) {
        self.init(type: type) { _, _ in
            ServedAnswer(200, [("Content-Type", type), ("Cache-Control", "no-store")], .text(make()))
        }
    }

    /// A text that depends on the request.
    /// - Parameters:
    ///   - type: as above.
    ///   - make: makes the answer; its second parameter says whether the client has gone.
    package init(type: String, _ make: @escaping @Sendable (ServedRequest, () -> Bool) -> ServedAnswer) {
        self.type = type
        self.make = make
        events = nil
    }

    /// A text again and again, as server-sent events.
    /// - Parameters:
    ///   - patience: the time that a client has to take one.
    ///   - first: as for `EventStream`.
    ///   - make: a JSON object in one line, without its end.
    package init(
        patience: Duration = .seconds(20), first: (@Sendable () -> [UInt8])? = nil,
        each make: @escaping @Sendable () -> [UInt8]
    ) {
        type = "text/event-stream"
        self.make = { _, _ in ServedAnswer(200, [], .text(make())) }
        events = EventStream(patience: patience, first: first, make)
    }

    fileprivate func answer(_ request: ServedRequest) async -> ServedAnswer {
        await aside { [make] isOver in make(request, isOver) }
    }
}

/// The last answer of a connection was sent.
private struct ConnectionOver: Error {}

/// An answer that ended before its length.
struct CutShort: Error {
    var reason: VolumeError
}

extension ServedAnswer {
    /// The one table of statuses.
    init(_ error: VolumeError) {
        switch error {
        case .notFound, .notDirectory, .isDirectory, .stale, .noAttribute, .nameTooLong:
            self.init(404, saying: "No such file or folder.")
        case .readOnly, .unsupported: self.init(405, saying: "That is not possible here.")
        case .leadsOut: self.init(403, saying: "This link leads out of the tree.")
        case .accessDenied: self.init(403, saying: "The origin denies access.")
        case .timedOut: self.init(504, saying: "The origin did not answer in time.")
        case .unreachable, .offline: self.init(503, saying: "The origin cannot be reached, and this is not cached.")
        case .failed: self.init(502, saying: "The origin's answer is of no use, or the cache cannot be read.")
        case .interrupted: self.init(503, saying: "The server is ending.")
        }
    }
}
