/// A receiver in front of another one, which hears all that the first does not keep to itself.
package protocol ForwardingReceiver: OriginReceiver {
    /// Hears what goes on.
    var receiver: any OriginReceiver { get }
}

extension ForwardingReceiver {
    /// The other's program.
    package var program: String? { receiver.program }
    /// Tells the other.
    package func sent() { receiver.sent() }
    /// Asks the other.
    package func yields() -> Bool { receiver.yields() }
    /// Tells the other.
    package func connecting() { receiver.connecting() }
    /// Tells the other.
    package func redirected() { receiver.redirected() }
    /// Tells the other.
    package func asked(_ place: AnswerPlace) { receiver.asked(place) }
}
