import ArgumentParser
import CLinux
import ReelCache

/// The long options of a command, one a row of ``OptionTable``, under the titles of their groups.
///
/// ArgumentParser finds the options of a type in its mirror, and has the type decode them by their labels there. This
/// type puts the table's rows where other types have declared properties.
struct OptionArguments<Command: OptionCommand>: ParsableArguments, CustomReflectable {
    /// The options on the command line, group by group.
    private(set) var given: [GivenOption] = []

    init() {}

    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: RowKey.self)
        if let rows {
            given = try givenRows(rows, values)
        } else {
            for group in rowGroups { given += try Self.given(in: group, values) }
        }
    }

    var customMirror: Mirror {
        if let rows { return Mirror(self, children: rows.map(\.child)) }
        // Of few options titles would say more than they do.
        let areMany = OptionTable.rows.count { $0.scope.contains(Command.scope) } > 10
        return Mirror(self, children: rowGroups.map { Self.child($0, isTitled: areMany) })
    }

    /// Without titles, nil with them.
    private var rows: [RowArgument]? {
        switch OptionView.current {
        case .titled: nil
        case .plain: rowGroups.flatMap { RowArgument.all(of: $0.group, Command.scope) }
        case .named(let names):
            names.compactMap { RowArgument.named[$0] }.filter { $0.row.scope.contains(Command.scope) }
        }
    }

    private static func given<Group: RowGroup>(
        in group: Group.Type, _ values: KeyedDecodingContainer<RowKey>
    ) throws -> [GivenOption] {
        let key = RowKey(stringValue: "\(group.group)")
        return try values.decode(OptionGroup<GroupArguments<Command, Group>>.self, forKey: key).wrappedValue.given
    }

    private static func child<Group: RowGroup>(
        _ group: Group.Type, isTitled: Bool
    ) -> (label: String, value: Any) {
        let title = isTitled ? group.group.rawValue : ""
        return ("\(group.group)", OptionGroup<GroupArguments<Command, Group>>(title: title))
    }
}

/// The options of one group, as ArgumentParser wants a type for each title.
private struct GroupArguments<Command: OptionCommand, Group: RowGroup>: ParsableArguments, CustomReflectable {
    private(set) var given: [GivenOption] = []

    init() {}

    init(from decoder: any Decoder) throws {
        given = try givenRows(Self.arguments, decoder.container(keyedBy: RowKey.self))
    }

    var customMirror: Mirror { Mirror(self, children: Self.arguments.map(\.child)) }

    private static var arguments: [RowArgument] { RowArgument.all(of: Group.group, Command.scope) }
}

/// What ArgumentParser sees of the options. It makes all that it sees several times for a command, a debug build of it
/// dozens of times.
enum OptionView: Sendable {
    /// All, under the titles of their groups, as in help.
    case titled
    case plain
    /// Rows of these names, in the order of their groups.
    case named([String])

    @TaskLocal static var current = OptionView.titled

    /// The rows that a command line may name, and others by chance. Where the parser takes the words with these alone,
    /// it takes them with all, and for the same: any other option would be an unknown one.
    static func named(in words: [String]) -> OptionView {
        let words = words.filter { $0.hasPrefix("-") }
        let names = Set(words.map { $0.prefix { $0 != "=" }.drop { $0 == "-" } })
        let letters = Set(words.filter { !$0.hasPrefix("--") }.joined())
        return .named(
            rowGroups.flatMap { RowArgument.groups[$0.group, default: []] }.map(\.row)
                .filter { names.contains($0.name[...]) || $0.letter.map(letters.contains) == true }.map(\.name))
    }
}

private func givenRows(
    _ arguments: [RowArgument], _ values: KeyedDecodingContainer<RowKey>
) throws -> [GivenOption] {
    var given: [GivenOption] = []
    for row in arguments.map(\.row) {
        let key = RowKey(stringValue: row.name)
        if row.form == nil {
            if try values.decode(Bool.self, forKey: key) { given.append(GivenOption(row.name, nil)) }
        } else if row.repeats {
            given += try values.decode([String].self, forKey: key).map { GivenOption(row.name, $0) }
        } else if let value = try values.decodeIfPresent(String.self, forKey: key) {
            given.append(GivenOption(row.name, value))
        }
    }
    return given
}

/// A row, and the property wrapper that a declared option would have.
private struct RowArgument {
    let row: OptionRow
    let wrapper: Any

    /// Made once: ArgumentParser looks into a mirror several times, in a debug build hundreds of times. The wrappers
    /// are values that nothing changes.
    nonisolated(unsafe) static let groups = Dictionary(
        grouping: OptionTable.rows.map { RowArgument(row: $0, wrapper: $0.argument) }, by: \.row.group)

    nonisolated(unsafe) static let named = Dictionary(
        uniqueKeysWithValues: groups.values.joined().map { ($0.row.name, $0) })

    static func all(of group: OptionRow.Group, _ scope: OptionRow.Scope) -> [RowArgument] {
        groups[group, default: []].filter { $0.row.scope.contains(scope) }
    }

    var child: (label: String?, value: Any) { (row.name, wrapper) }
}

private struct RowKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

private protocol RowGroup: Sendable { static var group: OptionRow.Group { get } }
private enum CommonRows: RowGroup { static let group = OptionRow.Group.common }
private enum SourceRows: RowGroup { static let group = OptionRow.Group.source }
private enum CacheRows: RowGroup { static let group = OptionRow.Group.cache }
private enum BehaviourRows: RowGroup { static let group = OptionRow.Group.behaviour }
private enum AccessRows: RowGroup { static let group = OptionRow.Group.access }
private enum HTTPRows: RowGroup { static let group = OptionRow.Group.http }
private enum SharingRows: RowGroup { static let group = OptionRow.Group.sharing }
private enum RareRows: RowGroup { static let group = OptionRow.Group.rare }

private let rowGroups: [any RowGroup.Type] = [
    CommonRows.self, SourceRows.self, CacheRows.self, BehaviourRows.self, AccessRows.self, HTTPRows.self,
    SharingRows.self, RareRows.self,
]

/// A command that takes the rows of a scope.
protocol OptionCommand: Sendable { static var scope: OptionRow.Scope { get } }
enum MountScope: OptionCommand { static let scope = OptionRow.Scope.mountpoint }
enum ServeScope: OptionCommand { static let scope = OptionRow.Scope.serve }
enum DoctorScope: OptionCommand { static let scope = OptionRow.Scope.doctor }
enum CacheScope: OptionCommand { static let scope = OptionRow.Scope.cache }

extension OptionArguments<CacheScope> {
    /// The value of `--cache-dir`.
    func cacheDirectory() throws(Failure) -> String? { try MountOptions(given).cacheDirectory }

    /// The cipher of the cache directory, where `--encrypt` names its key.
    func cipher() throws(Failure) -> CacheCipher? {
        let options = try MountOptions(given)
        guard let encryption = options.encryption else { return nil }
        let root = try SourceDirectory.root(options)
        guard CacheKeyFile.isEncrypted(root) else {
            throw .mount("the cache directory \(shown(root)) is not encrypted")
        }
        _ = reel_forbid_dumps()
        let key = try encryption.key(within: .seconds(30))
        do throws(CacheError) {
            return try CacheKeyFile.open(root, key, makes: false)
        } catch {
            throw .mount("\(error)")
        }
    }
}

extension OptionRow {
    fileprivate var argument: Any {
        let short = letter.map { [NameSpecification.Element.customShort($0)] } ?? []
        let names = NameSpecification(short + [.customLong(name)])
        let text = help + ((`default` ?? unset).map { " (default: \($0))." } ?? ".")
        let help = ArgumentHelp(
            "\(text)", valueName: form?.name, visibility: scope.contains(.hidden) ? .hidden : .default)
        guard let form else { return Flag(wrappedValue: false, name: names, help: help) }
        if repeats {
            return Option(wrappedValue: [String](), name: names, help: help, completion: form.completion)
        }
        return Option<String?>(name: names, help: help, completion: form.completion)
    }
}
