import ArgumentParser
import CLinux
import ReelCache

/// The long options of a command, one a row of ``OptionTable``.
///
/// ArgumentParser finds the options of a type in its mirror, and has the type decode them by their labels there. This
/// type puts the table's rows where other types have declared properties.
struct OptionArguments<Command: OptionCommand>: ParsableArguments, CustomReflectable {
    /// The options on the command line, in the order of the table.
    private(set) var given: [GivenOption] = []

    init() {}

    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: RowKey.self)
        for row in Self.rows {
            let key = RowKey(stringValue: row.name)
            if row.form == nil {
                if try values.decode(Bool.self, forKey: key) { given.append(GivenOption(row.name, nil)) }
            } else if row.repeats {
                given += try values.decode([String].self, forKey: key).map { GivenOption(row.name, $0) }
            } else if let value = try values.decodeIfPresent(String.self, forKey: key) {
                given.append(GivenOption(row.name, value))
            }
        }
    }

    var customMirror: Mirror { Mirror(self, children: Self.rows.map { (label: $0.name, value: $0.argument) }) }

    private static var rows: [OptionRow] { OptionTable.rows.filter { $0.scope.contains(Command.scope) } }

    private struct RowKey: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

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
    /// The property wrapper that a declared option would have.
    fileprivate var argument: Any {
        let names = NameSpecification.customLong(name)
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
