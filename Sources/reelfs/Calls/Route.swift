import ReelListener

/// A path of the HTTP server beside the tree: what is served there, and what its description says.
struct Route: Sendable {
    enum Answer: Sendable {
        /// By GET and HEAD.
        case document(ServedDocument)
        /// By POST.
        case call(ServedCall)
    }

    var path: String
    /// A sentence.
    var summary: String
    /// The parameters of a call.
    var parameters: [RouteParameter] = []
    /// It changes something, so that it wants credentials or the token.
    var isChanging = false
    /// The type of its media.
    var type = "application/json"
    var answer: Answer
}

/// A parameter of a call.
struct RouteParameter: Sendable {
    /// The types as JSON Schema names them.
    enum Kind: String, Sendable {
        case string
        case boolean
        case integer
    }

    var name: String
    /// The member of a ``ControlRequest`` on the wire.
    var key: String
    var kind: Kind
    /// A sentence or a noun phrase.
    var help: String
    var isRequired = false
}
