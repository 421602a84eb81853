import CXML
import Glibc

/// libxml2's page on threads: "call xmlInitParser in the main thread before using any of the libxml2 API"; a global of
/// Swift is made once, whichever thread comes first.
let xmlIsReady: Void = xmlInitParser()

/// What `readHTML` tells of a page, in its order.
protocol HTMLHandler: AnyObject {
    /// - Parameter name: in lower case, as are the attributes' names.
    func start(_ name: String, _ attributes: HTMLAttributes)
    func end(_ name: String)
    func text(_ bytes: UnsafeBufferPointer<UInt8>)
    /// Asked after each start tag: true ends the reading.
    var isDone: Bool { get }
}

/// The attributes of one start tag, valid during the call.
struct HTMLAttributes {
    fileprivate let pairs: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?

    /// The value as UTF-8, references such as `&amp;` replaced; nil where there is no such attribute.
    subscript(_ name: String) -> [UInt8]? {
        guard var pair = pairs else { return nil }
        while let key = pair.pointee {
            if name.withCString({ strcmp($0, UnsafeRawPointer(key).assumingMemoryBound(to: CChar.self)) }) == 0 {
                return pair[1].map { Array(UnsafeBufferPointer(start: $0, count: Int(xmlStrlen($0)))) } ?? []
            }
            pair += 2
        }
        return nil
    }
}

/// Reads a page by libxml2's HTML parser as events: no tree is built, nothing is fetched, no declaration of the page is
/// followed. Broken HTML is read as far as it makes sense.
///
/// - Parameter body: well-formed UTF-8 without NUL, at most `Int32.max` bytes.
/// - Returns: false where the tags are nested deeper than any listing's: reading has stopped there.
func readHTML(_ body: UnsafeRawBufferPointer, _ handler: some HTMLHandler) -> Bool {
    _ = xmlIsReady
    guard !body.isEmpty, let context = htmlNewParserCtxt() else { return true }
    defer { htmlFreeParserCtxt(context) }
    let reading = HTMLReading(handler, context)
    // The context owns this structure and frees it; only the events that are wanted stay in it.
    context.pointee.sax.update(repeating: htmlSAXHandler(), count: 1)
    context.pointee.sax.pointee.startElement = htmlStart
    context.pointee.sax.pointee.endElement = htmlEnd
    context.pointee.sax.pointee.characters = htmlCharacters
    context.pointee.sax.pointee.ignorableWhitespace = htmlCharacters
    context.pointee.userData = Unmanaged.passUnretained(reading).toOpaque()
    let options =
        HTML_PARSE_RECOVER.rawValue | HTML_PARSE_NONET.rawValue | HTML_PARSE_NOERROR.rawValue
        | HTML_PARSE_NOWARNING.rawValue | HTML_PARSE_NODEFDTD.rawValue | HTML_PARSE_IGNORE_ENC.rawValue
        | HTML_PARSE_NOIMPLIED.rawValue
    // Piece by piece: given all at once libxml2 copies it, and a large listing would be in memory twice.
    let input = HTMLInput(body)
    withExtendedLifetime((reading, input)) {
        let document = htmlCtxtReadIO(
            context, htmlRead, nil, Unmanaged.passUnretained(input).toOpaque(), nil, "UTF-8",
            Int32(bitPattern: options))
        if let document { xmlFreeDoc(document) }
    }
    return !reading.isTooDeep
}

private final class HTMLInput {
    private var rest: Slice<UnsafeRawBufferPointer>

    init(_ body: UnsafeRawBufferPointer) { rest = body[...] }

    func read(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        let piece = rest.prefix(buffer.count)
        buffer.copyBytes(from: piece)
        rest = rest.dropFirst(piece.count)
        return piece.count
    }
}

private func htmlRead(_ data: UnsafeMutableRawPointer?, _ buffer: UnsafeMutablePointer<CChar>?, _ count: Int32) -> Int32
{
    guard let data, let buffer, count > 0 else { return 0 }
    let input = Unmanaged<HTMLInput>.fromOpaque(data).takeUnretainedValue()
    return Int32(input.read(UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))))
}

private final class HTMLReading {
    let handler: any HTMLHandler
    let context: htmlParserCtxtPtr
    var isTooDeep = false
    /// The limit that libxml2 has for trees. Each end tag is looked for among the open ones, so that without a limit
    /// the time for a page of unclosed tags grows with its square.
    let deepest = 256

    init(_ handler: any HTMLHandler, _ context: htmlParserCtxtPtr) {
        self.handler = handler
        self.context = context
    }

    func start(_ name: UnsafePointer<xmlChar>, _ attributes: HTMLAttributes) {
        handler.start(String(cString: name), attributes)
        isTooDeep = context.pointee.nameNr > deepest
        if isTooDeep || handler.isDone { xmlStopParser(context) }
    }
}

private func htmlStart(
    _ data: UnsafeMutableRawPointer?, _ name: UnsafePointer<xmlChar>?,
    _ attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?
) {
    guard let data, let name else { return }
    Unmanaged<HTMLReading>.fromOpaque(data).takeUnretainedValue().start(name, HTMLAttributes(pairs: attributes))
}

private func htmlEnd(_ data: UnsafeMutableRawPointer?, _ name: UnsafePointer<xmlChar>?) {
    guard let data, let name else { return }
    Unmanaged<HTMLReading>.fromOpaque(data).takeUnretainedValue().handler.end(String(cString: name))
}

private func htmlCharacters(_ data: UnsafeMutableRawPointer?, _ text: UnsafePointer<xmlChar>?, _ count: Int32) {
    guard let data, let text, count > 0 else { return }
    Unmanaged<HTMLReading>.fromOpaque(data).takeUnretainedValue()
        .handler.text(UnsafeBufferPointer(start: text, count: Int(count)))
}
