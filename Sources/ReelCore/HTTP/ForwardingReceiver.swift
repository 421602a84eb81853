/// A receiver in front of another one, which gets all that the first does not keep to itself.
package protocol ForwardingReceiver: OriginReceiver {
    /// The other one.
    var receiver: any OriginReceiver { get }
}

extension ForwardingReceiver {
    /// The other's program.
    package var program: String? { receiver.program }
    /// Passes it on to the other.
    package func sent() { receiver.sent() }
    /// Asks the other.
    package func yields() -> Bool { receiver.yields() }
    /// Passes it on to the other.
    package func connecting() { receiver.connecting() }
    /// Passes it on to the other.
    package func redirected() { receiver.redirected() }
    /// Passes it on to the other.
    package func asked(_ place: AnswerPlace) { receiver.asked(place) }
}
