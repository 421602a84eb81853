import ReelCore

/// One answer to ListObjectsV2.
struct S3Page {
    struct Object {
        var key: [UInt8] = []
        var length: Int64?
        /// Seconds since 1970.
        var modified: Int64?
        var tag: EntryTag?
    }

    /// With their keys decoded, in the order of the answer.
    private(set) var objects: [Object] = []
    /// Not decoded yet (`decoded`).
    private(set) var prefixes: [[UInt8]] = []
    private(set) var isTruncated = false
    private(set) var token: [UInt8]?
    private var isEncoded = false

    /// Servers list a thousand entries a page, or as many as they are asked for.
    fileprivate static let most = 100_000

    init(_ document: [UInt8], _ isOver: @escaping StopQuestion) throws(SourceRefusal) {
        var reading = S3Reading()
        var reader = MarkupReader(withoutByteOrderMark(document), .xml, StopCheck(isOver))
        let isRead = reader.read(&reading)
        if let failure = reading.failure { throw failure }
        guard isRead else { throw .stopped }
        guard reading.isWhole else { throw .cutShort }
        self = reading.page
        for place in objects.indices { objects[place].key = decoded(objects[place].key) }
    }

    fileprivate init() {}

    /// Decodes a key if the answer says that it is escaped (`EncodingType`). Some services write a space as `+`, and
    /// all write a plus as `%2B`.
    func decoded(_ key: [UInt8]) -> [UInt8] {
        isEncoded ? percentDecoded(key.map { $0 == UInt8(ascii: "+") ? 0x20 : $0 }[...]) : key
    }

    /// - Parameter path: the names of the elements around the value, without the root.
    fileprivate mutating func take(_ value: [UInt8], at path: ArraySlice<String>, _ object: inout Object) {
        switch Array(path) {
        case ["EncodingType"]: isEncoded = trimmedBytes(value[...]).elementsEqual("url".utf8)
        case ["IsTruncated"]: isTruncated = trimmedBytes(value[...]).elementsEqual("true".utf8)
        case ["NextContinuationToken"]: token = value.isEmpty ? nil : value
        case ["CommonPrefixes", "Prefix"]: prefixes.append(value)
        case ["Contents", "Key"]: object.key = value
        case ["Contents", "Size"]: object.length = decimal(trimmedBytes(value[...]))
        case ["Contents", "LastModified"]:
            var cursor = ByteCursor(trimmedBytes(value[...]))
            object.modified = cursor.listingDate()
        case ["Contents", "ETag"]: object.tag = EntryTag(value[...])
        case ["Contents"]:
            objects.append(object)
            object = Object()
        default: break
        }
    }
}

private final class S3Reading: MarkupHandler {
    private(set) var page = S3Page()
    private(set) var failure: SourceRefusal?
    /// The root has ended, so nothing was cut off.
    private(set) var isWhole = false
    private var path: [String] = []
    private var value: [UInt8] = []
    private var object = S3Page.Object()

    /// Elements inside each other; those of a listing have four.
    private static let deepest = 16
    /// Bytes of a value. A key has a thousand, each may be escaped, and each escape may be written as a reference.
    private static let longest = 32 << 10

    var isDone: Bool { failure != nil }

    func documentType() { failure = .foreign("it is no listing of a bucket") }

    func start(_ name: String, _: MarkupAttributes) {
        if path.isEmpty, name != "ListBucketResult" || isWhole {
            failure = .foreign("it is no listing of a bucket")
        }
        path.append(name)
        value = []
        if path.count > Self.deepest || page.objects.count + page.prefixes.count > S3Page.most {
            failure = .tooManyEntries
        }
    }

    func end(_ name: String) {
        guard path.last == name else {
            failure = .cutShort
            return
        }
        page.take(value, at: path.dropFirst(), &object)
        value = []
        path.removeLast()
        isWhole = path.isEmpty
    }

    func text(_ bytes: ArraySlice<UInt8>) {
        guard !path.isEmpty else { return }
        value += bytes
        if value.count > Self.longest { failure = .useless("it lists a key of more than \(Self.longest >> 10) KiB") }
    }
}
