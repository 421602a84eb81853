import CXML
import Glibc
import ReelCore

/// XSPF (xspf.org, version 1) by libxml2 as events. A document with a document type of its own is refused: XSPF has
/// none, and entities are declared nowhere else, so neither files nor a billion laughs can come in.
func parseXSPF(_ body: [UInt8]) throws(PlaylistError) -> [PlaylistTrack] {
    _ = xmlIsReady
    guard !body.isEmpty, let context = xmlNewParserCtxt() else { throw .malformed }
    defer { xmlFreeParserCtxt(context) }
    let reading = XSPFReading(context)
    // The context owns this structure and frees it; only the events that are wanted stay in it.
    context.pointee.sax.update(repeating: xmlSAXHandler(), count: 1)
    context.pointee.sax.pointee.initialized = UInt32(XML_SAX2_MAGIC)
    context.pointee.sax.pointee.startElementNs = xspfStart
    context.pointee.sax.pointee.endElementNs = xspfEnd
    context.pointee.sax.pointee.characters = xspfCharacters
    context.pointee.sax.pointee.cdataBlock = xspfCharacters
    context.pointee.sax.pointee.internalSubset = xspfDocumentType
    context.pointee.userData = Unmanaged.passUnretained(reading).toOpaque()
    // RECOVER: a bare `&` in a URL is common, and loses nothing but itself.
    let options =
        XML_PARSE_RECOVER.rawValue | XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue
        | XML_PARSE_NOWARNING.rawValue
    withExtendedLifetime(reading) {
        body.withUnsafeBytes { bytes in
            let start = bytes.baseAddress!.assumingMemoryBound(to: CChar.self)
            if let document = xmlCtxtReadMemory(
                context, start, Int32(bytes.count), nil, nil, Int32(bitPattern: options))
            {
                xmlFreeDoc(document)
            }
        }
    }
    guard !reading.isRefused, reading.isWhole else { throw .malformed }
    return reading.tracks
}

private final class XSPFReading {
    private let context: xmlParserCtxtPtr
    private(set) var tracks: [PlaylistTrack] = []
    private(set) var isRefused = false
    /// The end of the root was seen: nothing was cut off.
    private(set) var isWhole = false
    private var path: [String] = []
    private var text: [UInt8]?
    private var track: PlaylistTrack?

    /// Longer ones are neither a URL nor a title.
    private static let longestText = 64 << 10

    init(_ context: xmlParserCtxtPtr) { self.context = context }

    func refuse() {
        isRefused = true
        xmlStopParser(context)
    }

    func start(_ name: String) {
        path.append(name)
        if path == ["playlist", "trackList", "track"] { track = PlaylistTrack(locations: []) }
        text = track != nil && path.count == 4 ? [] : nil
        if path.count == 1 && name != "playlist" || tracks.count > Playlist.mostEntries { refuse() }
    }

    func end() {
        if let text {
            let value = trimmed(String(decoding: text, as: UTF8.self))
            if path.last == "location", !value.isEmpty { track?.locations.append(value) }
            if path.last == "title", track?.title == nil { track?.title = value }
        }
        text = nil
        if path.count == 3, let track {
            if !track.locations.isEmpty { tracks.append(track) }
            self.track = nil
        }
        if !path.isEmpty { path.removeLast() }
        isWhole = path.isEmpty
    }

    func characters(_ bytes: UnsafeBufferPointer<UInt8>) {
        if let count = text?.count, count < Self.longestText { text!.append(contentsOf: bytes) }
    }
}

private func reading(_ data: UnsafeMutableRawPointer?) -> XSPFReading? {
    data.map { Unmanaged<XSPFReading>.fromOpaque($0).takeUnretainedValue() }
}

private func xspfStart(
    _ data: UnsafeMutableRawPointer?, _ name: UnsafePointer<xmlChar>?, _: UnsafePointer<xmlChar>?,
    _: UnsafePointer<xmlChar>?, _: Int32, _: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _: Int32, _: Int32,
    _: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?
) {
    if let name { reading(data)?.start(String(cString: name)) }
}

private func xspfEnd(
    _ data: UnsafeMutableRawPointer?, _: UnsafePointer<xmlChar>?, _: UnsafePointer<xmlChar>?, _: UnsafePointer<xmlChar>?
) {
    reading(data)?.end()
}

private func xspfCharacters(_ data: UnsafeMutableRawPointer?, _ text: UnsafePointer<xmlChar>?, _ count: Int32) {
    if let text, count > 0 { reading(data)?.characters(UnsafeBufferPointer(start: text, count: Int(count))) }
}

private func xspfDocumentType(
    _ data: UnsafeMutableRawPointer?, _: UnsafePointer<xmlChar>?, _: UnsafePointer<xmlChar>?, _: UnsafePointer<xmlChar>?
) {
    reading(data)?.refuse()
}
