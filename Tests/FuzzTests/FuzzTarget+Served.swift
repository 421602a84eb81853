import ReelCore
import ReelListener

@testable import reelfs

extension FuzzTarget {
    /// Requests to the HTTP server.
    static let served = [
        // The first line is the target, the second the range; the others are headers.
        FuzzTarget("served-request") { bytes in
            let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            let names = ["range", "if-range", "if-none-match", "if-modified-since", "host", "authorization"]
            let headers = zip(names, lines.dropFirst()).map { (name: $0, value: $1) }
            let request = ServedRequest(method: "GET", target: lines[0], headers: headers)
            for reach in [Reach.loopback, .socket, .network(names: ["a"])] {
                _ = Admission(credentials: ("a", "b"), reach: reach).refusal(request)
            }
            if case .tree(let names, _, _) = ServedPath(request.path) {
                let isSafe = names.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." && !$0.utf8.contains(0x2F) }
                try require(isSafe, "\(names)")
                let path = ServedPath(request.path)
                let again = path.text.map { ServedPath(Array($0.utf8)[...]) }
                try require(again == path, "\(path) is not read again as what it is")
            }
            for length in [0, 1, 10, 1 << 40, BlockSize.openEnd] {
                try checkRange(request["range"], length)
                let tag = EntityTag("\"v\"")
                let file = ServedFile(name: "a.mkv", length: length, entityTag: tag, modified: 1_700_000_000)
                let answer = file.answer(request)
                try require([200, 206, 304, 412, 416].contains(answer.status), "status \(answer.status)")
            }
        },
        // The first line is the type, the rest the body.
        FuzzTarget("call") { bytes in
            let lines = bytes.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false)
            let type = String(decoding: lines[0], as: UTF8.self)
            var request = ServedRequest(
                method: "POST", target: "/call?" + type, headers: type.isEmpty ? [] : [("Content-Type", type)])
            request.body = Array(lines.dropFirst().first ?? [])
            guard var read = try? CallParameters(request) else { return }
            let told = encodeLine(JSONValue.object(read.values))
            try require(
                told.last == 0x0A && !told.dropLast().contains { $0 < 0x20 }, "control characters in the answer")
            for name in read.values.keys.sorted() {
                _ = try? read.takeFlag(name)
                try require(read.values[name] == nil, "\(name) is still there")
            }
            if let made = try? CommandCalls.request("refresh", request) {
                guard case .refresh(let path, _) = made, !path.hasPrefix("/") else {
                    throw FuzzFinding(description: "\(made)")
                }
            }
        },
        FuzzTarget("propfind") { bytes in
            guard case .some(let names)? = PropertyRequest(bytes) else { return }
            let elements = names.map { name in
                let quote = name.namespace.contains("\"") ? "'" : "\""
                return name.namespace.isEmpty
                    ? "<\(name.local)/>" : "<x:\(name.local) xmlns:x=\(quote)\(name.namespace)\(quote)/>"
            }
            let body = "<D:propfind xmlns:D='DAV:'><D:prop>\(elements.joined())</D:prop></D:propfind>"
            let again = PropertyRequest(Array(body.utf8))
            try require(
                again == .some(names), "\(names) are \(String(describing: again)) when they are asked for again")
        },
    ]

    private static func checkRange(_ header: String?, _ length: Int64) throws(FuzzFinding) {
        guard case .part(let range) = RangeRequest(header, length: length) else { return }
        try require(range.lower >= 0 && range.count > 0 && range.upper <= length, "\(range) of \(length)")
    }
}
