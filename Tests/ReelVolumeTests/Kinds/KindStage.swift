import ReelHTTP
import ReelSources
import TestKit
import Testing

/// One folder of films, served as one kind of source has it.
protocol KindStage: Sendable {
    /// SOURCE.
    var address: String { get }
    /// The bytes of each film.
    var film: [UInt8] { get }
    /// How it is asked by SFTP.
    var ssh: SSHAccess { get }

    /// Changes what the next listing brings.
    func answer(_ answer: StageAnswer) throws

    /// The name that a mount shows for a film of this plain name.
    func shown(_ name: String) -> String

    /// Nobody answers from now on.
    func close()
}

/// What a listing brings.
enum StageAnswer: Sendable {
    /// A list of films, by their names as the source has them.
    case names([[UInt8]])
    /// Half of one.
    case cut
    /// A document of another kind, such as a captive portal's page.
    case foreign
    /// The server is busy.
    case busy
    /// The server wants a login.
    case login
}

extension KindStage {
    var ssh: SSHAccess { SSHAccess() }

    func shown(_ name: String) -> String { name }

    func show(_ names: String...) throws { try answer(.names(names.map { Array($0.utf8) })) }
}

/// A kind in the suite of all kinds.
struct StagedKind: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let kind: any Source.Type
    /// Questions that have no meaning for the kind, each with the reason.
    var without: [KindQuestion: String] = [:]
    let open: @Sendable () throws -> any KindStage

    /// A kind that one document lists, which a web server has.
    init(_ form: DocumentForm, _ kind: any Source.Type, without: [KindQuestion: String] = [:]) {
        (testDescription, self.kind, self.without) = (form.name, kind, without)
        open = { try WebStage(form) }
    }

    init(
        _ name: String, _ kind: any Source.Type, without: [KindQuestion: String] = [:],
        open: @escaping @Sendable () throws -> any KindStage
    ) {
        (testDescription, self.kind, self.without, self.open) = (name, kind, without, open)
    }

    /// The same document on the local disk.
    init(local form: DocumentForm, _ kind: any Source.Type, without: [KindQuestion: String] = [:]) {
        testDescription = "local " + form.name
        self.kind = kind
        self.without = without.merging([
            .cut: "nothing says how long a file on the disk should be", .busy: "no server is asked",
            .loginBefore: "no server is asked", .loginLater: "no server is asked",
            .remounted: "the user names the file, so a mount says that it is missing",
        ]) { own, _ in own }
        open = { try LocalStage(form) }
    }

    /// A kind that `SourceKinds.all` has and this lacks fails the suite.
    static let all = [
        StagedKind(.nginx, ListingSource.self),
        StagedKind(.json, ListingSource.self),
        StagedKind(.m3u, PlaylistSource.self),
        StagedKind(local: .m3u, PlaylistSource.self),
        StagedKind(.rss, FeedSource.self),
        StagedKind(local: .rss, FeedSource.self),
        StagedKind(.hls, HLSSource.self, without: hls),
        StagedKind(local: .hls, HLSSource.self, without: hls),
        StagedKind(.webDAV, WebDAVSource.self),
        StagedKind(.s3, S3Source.self),
        StagedKind("FTP", FileServerSource.self) { try FTPStage() },
        StagedKind(
            "SFTP", FileServerSource.self,
            without: [
                .cut: "OpenSSH's server ends no listing early", .foreign: "OpenSSH's server lists nothing else",
                .busy: "OpenSSH's server has no such answer", .loginLater: "a session that is logged in goes on",
            ]
        ) { try SFTPStage() },
        StagedKind(
            .file, FileSource.self,
            without: Dictionary(
                uniqueKeysWithValues: [.changed, .empty, .hostileNames].map {
                    ($0, "its one entry is the file that the user names")
                } + [.cut, .foreign, .busy, .loginLater].map { ($0, "it is listed without a request") })),
    ]

    private static let hls: [KindQuestion: String] = [
        .empty: "a playlist without segments is a file of text",
        .hostileNames: "its names are made of numbers, and of the name in the address",
    ]
}
