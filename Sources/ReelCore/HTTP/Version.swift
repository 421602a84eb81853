/// One version of a resource: all bytes of one data file are of it.
package struct Version: Hashable, Sendable {
    /// The resource's URL as text, without credentials; may hold anything.
    package var key: String
    /// With the length it says whether two answers are of one version.
    package var validator: Validator
    /// Bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64
    /// Whether its end is not known yet.
    package var isOpenEnded: Bool { length == BlockSize.openEnd }

    /// - Parameter length: bytes, or `BlockSize.openEnd`.
    package init(key: String, validator: Validator, length: Int64) {
        self.key = key
        self.validator = validator
        self.length = length
    }
}
