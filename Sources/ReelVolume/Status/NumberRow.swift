import ReelCache

/// One row of ``NumberTable``: a counter, a gauge or a histogram.
package struct NumberRow: Sendable {
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package enum Unit: String, Sendable {
        case blocks, bytes, files, folders, origins, reads, requests, seconds, sources, state
        case flag = "0 or 1"
    }

    package struct Sample: Sendable {
        package enum Value: Sendable {
            case number(Int64)
            case histogram(HistogramCounts)
        }

        /// The value of the row's label; empty if the row has none.
        package var label = ""
        package var value: Value
    }

    /// In `/metrics`, after `reelfs_`; nil if only the JSON of `status` has the number.
    package let name: String?
    package let kind: Kind
    package let unit: Unit
    /// Distinguishes the samples; nil if there is one sample.
    package let label: String?
    /// One sentence: the HELP of `/metrics`.
    package let help: String
    /// In the JSON of `status`; nil if only `/metrics` has the number.
    package let key: String?
    /// Empty if the mount has no such number.
    package let samples: @Sendable (VolumeStatus) -> [Sample]
    // Each concerns one property of `VolumeNumbers`, and does nothing if the row has none.
    fileprivate var read: @Sendable (inout VolumeNumbers, Volume) -> Void = { _, _ in }
    fileprivate var readCache: @Sendable (inout VolumeNumbers, Store) -> Void = { _, _ in }
    fileprivate var add: @Sendable (inout VolumeNumbers, VolumeNumbers) -> Void = { _, _ in }
    fileprivate var encode: @Sendable (VolumeNumbers) -> Int64? = { _ in nil }
    fileprivate var decode: @Sendable (inout VolumeNumbers, Int64) -> Void = { _, _ in }

    private init(
        _ name: String?, _ kind: Kind, _ unit: Unit, _ label: String?, _ help: String, key: String? = nil,
        _ samples: @escaping @Sendable (VolumeStatus) -> [Sample]
    ) {
        (self.name, self.kind, self.unit, self.label, self.help) = (name, kind, unit, label, help)
        (self.key, self.samples) = (key, samples)
    }

    private init<Value: NumberValue>(
        _ name: String?, _ kind: Kind, _ unit: Unit, _ label: String?, _ help: String, key: String?,
        at path: WritableKeyPath<VolumeNumbers, Value> & Sendable
    ) {
        self.init(name, kind, unit, label, help, key: key) { $0.numbers[keyPath: path].samples }
        encode = { $0[keyPath: path].plain }
        decode = { $0[keyPath: path].plain = $1 }
    }

    /// A number of each source: that of a catalogue is their sum.
    /// - Parameters:
    ///   - key: only of a number without a label.
    ///   - sum: adds the second one to the first.
    static func volume<Value: NumberValue>(
        _ name: String?, _ kind: Kind, _ unit: Unit, label: String? = nil, key: String? = nil, _ help: String,
        _ path: WritableKeyPath<VolumeNumbers, Value> & Sendable,
        sum: @escaping @Sendable (inout Value, Value) -> Void = { $0.add($1) },
        read: @escaping @Sendable (Volume) -> Value
    ) -> NumberRow {
        var row = NumberRow(name, kind, unit, label, help, key: key, at: path)
        row.read = { $0[keyPath: path] = read($1) }
        row.add = { sum(&$0[keyPath: path], $1[keyPath: path]) }
        return row
    }

    /// A number of the cache, which all sources of a catalogue share.
    static func cache(
        _ name: String?, _ kind: Kind, _ unit: Unit, key: String? = nil, _ help: String,
        _ path: WritableKeyPath<VolumeNumbers, Int64> & Sendable, read: @escaping @Sendable (Store) -> Int64
    ) -> NumberRow {
        var row = NumberRow(name, kind, unit, nil, help, key: key, at: path)
        row.readCache = { $0[keyPath: path] = read($1) }
        return row
    }

    /// A number that follows from the rest of the status; nil if the mount has no such number.
    static func status(
        _ name: String, _ kind: Kind, _ unit: Unit, _ help: String,
        value: @escaping @Sendable (VolumeStatus) -> Int64?
    ) -> NumberRow {
        NumberRow(name, kind, unit, nil, help) { value($0).samples }
    }

    /// The same, with a label.
    static func status(
        _ name: String, _ kind: Kind, _ unit: Unit, label: String, _ help: String,
        values: @escaping @Sendable (VolumeStatus) -> Labelled<Int64>
    ) -> NumberRow {
        NumberRow(name, kind, unit, label, help) { values($0).samples }
    }
}

extension VolumeNumbers {
    /// The numbers of one source and its cache.
    init(of volume: Volume) {
        self.init(of: volume.services.store)
        for row in NumberTable.rows { row.read(&self, volume) }
    }

    /// The numbers of a cache, before those of its sources are added.
    init(of store: Store) {
        for row in NumberTable.rows { row.readCache(&self, store) }
    }

    /// Adds the numbers of a source; the cache's are here already.
    mutating func add(_ other: VolumeNumbers) {
        for row in NumberTable.rows { row.add(&self, other) }
    }

    /// Adds what only grows of the numbers of a source that is no longer shown.
    mutating func addCounters(_ other: VolumeNumbers) {
        for row in NumberTable.rows where row.kind != .gauge { row.add(&self, other) }
    }
}

/// The numbers are members of the JSON object that holds them.
extension VolumeNumbers: Codable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// A number that the JSON of another version lacks stays as it is before anything is read.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        for row in NumberTable.rows {
            guard let key = row.key else { continue }
            if let number = try container.decodeIfPresent(Int64.self, forKey: Key(stringValue: key)) {
                row.decode(&self, number)
            }
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for row in NumberTable.rows {
            if let key = row.key { try container.encodeIfPresent(row.encode(self), forKey: Key(stringValue: key)) }
        }
    }
}

/// The value of a number.
package protocol NumberValue: Sendable {
    var samples: [NumberRow.Sample] { get }
    /// The value in JSON; nil if it is not one number.
    var plain: Int64? { get set }
    mutating func add(_ other: Self)
}

extension NumberValue {
    package var plain: Int64? {
        get { nil }
        set {}
    }
}

extension Int64: NumberValue {
    package var samples: [NumberRow.Sample] { [NumberRow.Sample(value: .number(self))] }
    package var plain: Int64? {
        get { self }
        set { self = newValue ?? 0 }
    }
    package mutating func add(_ other: Int64) { self &+= other }
}

extension Int64?: NumberValue {
    package var samples: [NumberRow.Sample] { map(\.samples) ?? [] }
    package var plain: Int64? {
        get { self }
        set { self = newValue }
    }
    package mutating func add(_ other: Int64?) {
        if let other { self = (self ?? 0) &+ other }
    }
}

extension HistogramCounts: NumberValue {
    package var samples: [NumberRow.Sample] { [NumberRow.Sample(value: .histogram(self))] }
}

/// Values by label, in the order in which they came.
package struct Labelled<Value: NumberValue>: NumberValue {
    package private(set) var items: [(label: String, value: Value)]

    package init(_ items: [(label: String, value: Value)] = []) { self.items = items }

    package subscript(label: String) -> Value? { items.first { $0.label == label }?.value }

    package var samples: [NumberRow.Sample] {
        items.flatMap { label, value in value.samples.map { NumberRow.Sample(label: label, value: $0.value) } }
    }

    package mutating func add(_ other: Labelled) { merge(other) { $0.add($1) } }

    mutating func merge(_ other: Labelled, _ combine: (inout Value, Value) -> Void) {
        // Sources of a catalogue may each know thousands of origins.
        var places = Dictionary(uniqueKeysWithValues: items.enumerated().map { ($0.element.label, $0.offset) })
        for (label, value) in other.items {
            if let place = places[label] {
                combine(&items[place].value, value)
            } else {
                places[label] = items.count
                items.append((label, value))
            }
        }
    }

    /// By label.
    mutating func sort() { items.sort { $0.label < $1.label } }
}
