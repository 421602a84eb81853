import ReelCore
import Synchronization

/// A tree of folders on an FTP or SFTP server. An address without a slash at its end may be that of one file.
///
/// `ftp://` is FTP without TLS, `ftps://` FTP inside of TLS, and `ftpes://` FTP that changes to TLS before the
/// password. A path counts from the folder in which FTP's login ends, and from the root with SFTP.
package struct FileServerSource: Source {
    package static let kind = "server"

    package let root: SourcePlace
    package let file: ResourceURL?
    private let dialect = Dialect()

    package init(root: SourcePlace) { self.init(root, file: nil) }

    private init(_ root: SourcePlace, file: ResourceURL?) { (self.root, self.file) = (root, file) }

    package static func recognise(address: String) -> FileServerSource? {
        guard let url = ResourceURL(trusted: address), url.fileProtocol != nil else { return nil }
        // Such a server knows no query: each byte is one of a name. One that FTP's commands could take for something
        // else is escaped, and a name keeps one spelling.
        let given = url.path + (url.query.map { "?" + $0 } ?? "")
        let segments = Array(given.utf8).split(separator: 0x2F).map { encodedName(percentDecoded($0)[...]) }
        let path = segments.reduce(into: [UInt8(0x2F)]) { $0 += $1 + [0x2F] }
        let root = url.with(path: "/").child(path[1...].map { $0 }, query: nil)
        return root.map { FileServerSource(.url($0.folderItself), file: given.hasSuffix("/") ? nil : $0.fileItself) }
    }

    package static func recognise(_ answer: SourceAnswer) -> FileServerSource? { nil }

    package var description: String { "folder (\(root.url.map { asciiUppercased($0.scheme) } ?? "FTP"))" }
    package var hasMirrors: Bool { false }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        FileServerReader(folder, dialect)
    }
}

/// What the server has been found to know.
private final class Dialect: Sendable {
    /// It has refused MLSD (RFC 3659), as vsftpd does.
    let hasPlainListsOnly = Atomic(false)
}

/// Lists one folder: by MLSD, whose lines programs can read, else by LIST, whose lines look as those of `ls -l`.
/// SFTP's are those of `ls -l` as well, as libcurl shows no other.
///
/// libcurl has a parser for LIST (CURLOPT_WILDCARDMATCH(3)). It would not serve: SFTP has none, it keeps the whole
/// listing, it ends at the first line that it does not know, and it gives a date as text.
private struct FileServerReader: FolderReader {
    private let folder: SourcePlace
    private let dialect: Dialect
    private var lines: FolderLines
    private var form: FolderLines.Form
    private var isRefused = false
    /// Links that may still be looked at, nil if the listing has not come whole.
    private var looks: Int?
    private var isFolder = false

    init(_ folder: SourcePlace, _ dialect: Dialect) {
        (self.folder, self.dialect) = (folder, dialect)
        let isFTP = folder.url?.fileProtocol == .ftp
        form = isFTP && !dialect.hasPlainListsOnly.load(ordering: .relaxed) ? .facts : .text
        lines = FolderLines(of: folder.url, form)
    }

    /// Counts entries, a hundred bytes each; none is kept as it came.
    var longestAnswer: Int { 1 << 30 }

    /// A folder of more links shows the others as files.
    private static let mostLinks = 100

    mutating func start() throws(SourceRefusal) -> FolderStep {
        guard let url = folder.url, url.fileProtocol != nil else { throw .foreign("a local file") }
        var request = OriginRequest(url: url)
        request.accepted = [200]
        if form == .facts {
            request.method = "MLSD"
            request.accepted = [200, 501]
        }
        return .ask(.origin(request))
    }

    mutating func head(_ head: ResponseHead?) {
        if looks != nil {
            isFolder = head?.status == 200
        } else {
            isRefused = head?.status == 501
            lines = FolderLines(of: folder.url, form)
        }
    }

    mutating func take(_ bytes: [UInt8]) throws(SourceRefusal) {
        if looks == nil { try lines.take(bytes) }
    }

    mutating func end(_: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        if isRefused, form == .facts {
            form = .text
            dialect.hasPlainListsOnly.store(true, ordering: .relaxed)
            return try start()
        }
        if let left = looks {
            lines.resolveLink(isFolder: isFolder)
            looks = left - 1
        } else {
            try lines.finish()
            looks = Self.mostLinks
        }
        guard let left = looks, left > 0, let url = lines.nextLink else { return .entries(lines.list()) }
        // A folder can be entered, and a file cannot. With SFTP libcurl enters one only to list it.
        var request = OriginRequest(url: url)
        request.isHeadEnough = url.fileProtocol == .ftp
        request.accepted = [200, 403, 404, 501]
        return .ask(.origin(request))
    }
}

/// Encodes a name as a segment of a path: no byte that libcurl or FTP could take for something else stays.
func encodedName(_ name: ArraySlice<UInt8>) -> [UInt8] { s3Escaped(name) }

extension ResourceURL {
    /// The same place, with a slash at its end.
    fileprivate var folderItself: ResourceURL { path.hasSuffix("/") ? self : with(path: path + "/") }

    /// The same place, without one, nil if it is the first of all.
    fileprivate var fileItself: ResourceURL? {
        path.hasSuffix("/") ? path == "/" ? nil : with(path: String(path.dropLast())) : self
    }
}

private func asciiUppercased(_ text: String) -> String {
    String(decoding: text.utf8.map { (0x61...0x7A).contains($0) ? $0 & 0xDF : $0 }, as: UTF8.self)
}
