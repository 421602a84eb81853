import FoundationEssentials

/// JSON with sorted keys, without control characters, and with a newline at its end.
func encodeLine(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return ((try? encoder.encode(value)).map { withEscapedControls([UInt8]($0)) } ?? Array("{}".utf8)) + [0x0A]
}

/// nil where the line is not such a value; it may come from any user.
func decodeLine<Value: Decodable>(_ type: Value.Type, _ line: some Sequence<UInt8>) -> Value? {
    try? JSONDecoder().decode(type, from: Data(line))
}
