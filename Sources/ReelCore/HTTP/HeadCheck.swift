/// The use of an answer, judged by its head before a byte of its body is kept.
package enum HeadVerdict: Hashable, Sendable {
    /// 206: the body is exactly the range that was asked for.
    case range(ContentInformation)
    /// 200: the body is the whole resource from its first byte, also in answer to a range.
    case whole(ContentInformation)
    /// 304: the known version still holds.
    case unchanged
    /// The answer is of no use.
    case failure(OriginFailure)
}

/// Judges an answer by its head.
/// - Parameters:
///   - requested: the URL before redirects; its file extension decides whether a web page may come.
///   - asked: the range of the request, nil if the whole resource was asked for.
///   - isConditional: whether the request had a condition that 304 answers.
///   - known: the version that the bytes have to belong to; nil if nothing is known yet.
package func judge(
    _ head: ResponseHead, to requested: ResourceURL, asked: ByteRange?, isConditional: Bool, known: ContentInformation?
) -> HeadVerdict {
    if head.status == 304 {
        return isConditional ? .unchanged : .failure(.wrongAnswer("304 to a request without a condition"))
    }
    if head.isEncoded { return .failure(.wrongAnswer("a content encoding that was not requested")) }
    let validator = head.validator
    switch head.status {
    case 206,
        200 where head.isMislabelledRange:
        guard let asked, let contentRange = head.contentRange, let range = contentRange.range,
            let total = contentRange.total
        else { return .failure(.wrongAnswer("\(head.status) without a usable Content-Range")) }
        if total > BlockSize.longestFile { return .failure(tooLong) }
        guard range.lower == asked.lower, range.upper == min(asked.upper, total) else {
            // A resource that has become shorter cannot give the asked range either.
            if let known, total != known.length, !isTrusted(validator, known) { return .failure(.changed) }
            return .failure(.wrongAnswer("\(head.status) with another range than the one asked for"))
        }
        // Nothing else ends a range that comes with 200.
        guard (head.contentLength ?? (head.status == 206 ? range.count : nil)) == range.count else {
            return .failure(.wrongAnswer("\(head.status) whose length contradicts its range"))
        }
        let information = ContentInformation(length: total, validator: validator, mediaType: head.mediaType)
        return versionFailure(information, known).map { .failure($0) } ?? .range(information)
    case 200:
        if let length = head.contentLength, length > BlockSize.longestFile { return .failure(tooLong) }
        let information = ContentInformation(
            length: head.contentLength, validator: validator, mediaType: head.mediaType, acceptsRanges: asked == nil)
        if isForeignPage(head, requested: requested, known: known) {
            return .failure(.wrongAnswer("a web page where media was expected"))
        }
        return versionFailure(information, known).map { .failure($0) } ?? .whole(information)
    default:
        return .failure(.status(head.status, retryAfter: nil))
    }
}

private let tooLong = OriginFailure.wrongAnswer("a length of more than 16 TiB")

private func versionFailure(_ new: ContentInformation, _ known: ContentInformation?) -> OriginFailure? {
    guard let known else { return nil }
    guard new.validator.agrees(with: known.validator) else { return .changed }
    guard new.length == known.length else {
        return isTrusted(new.validator, known) ? .wrongAnswer("another length of the same version") : .changed
    }
    return nil
}

/// True where both name the same entity tag: then a different length is a lie, not a new version.
private func isTrusted(_ validator: Validator, _ known: ContentInformation) -> Bool {
    guard let one = validator.entityTag, let other = known.validator.entityTag else { return false }
    return one.isSame(as: other)
}

extension ResponseHead {
    /// A Content-Range means nothing in an answer with 200 (RFC 9110, section 14.4), which holds the whole resource.
    /// `rclone serve s3` sends the range alone with it: a body that is shorter than the whole, or gives no length.
    fileprivate var isMislabelledRange: Bool {
        guard let contentRange, let range = contentRange.range else { return false }
        return range.count != contentRange.total && (contentLength ?? -1) != contentRange.total
    }
}

/// True for a login page of a hotel network, or an error page with status 200: HTML under a name that promises other
/// content.
private func isForeignPage(_ head: ResponseHead, requested: ResourceURL, known: ContentInformation?) -> Bool {
    guard isWebPage(head.mediaType) else { return false }
    if let knownType = known?.mediaType { return !isWebPage(knownType) }
    let scripts: Set = ["", "html", "htm", "xhtml", "php", "asp", "aspx", "jsp", "cgi", "pl"]
    return !scripts.contains(requested.fileExtension)
}

/// True for a login page in place of the media that was there before: it is no new version of it.
package func isForeignPage(_ new: ContentInformation, inPlaceOf remembered: ContentInformation?) -> Bool {
    guard let before = remembered?.mediaType else { return false }
    return !isWebPage(before) && isWebPage(new.mediaType)
}

/// True for the media types of HTML.
package func isWebPage(_ mediaType: String?) -> Bool {
    mediaType == "text/html" || mediaType == "application/xhtml+xml"
}
