import ReelListener
import Testing

@testable import reelfs

@Suite struct CallParameterTests {
    private func parameters(
        _ body: String, _ type: String? = nil, query: String = ""
    ) throws(RequestFailure) -> CallParameters {
        var request = ServedRequest(
            method: "POST", target: "/call" + query, headers: type.map { [("Content-Type", $0)] } ?? [])
        request.body = Array(body.utf8)
        return try CallParameters(request)
    }

    @Test(
        "A query, a form and a JSON object mean the same",
        arguments: [
            ("", nil, "?dir=TV%2FA+B&recursive=true"),
            ("dir=TV%2FA+B&recursive=true", "application/x-www-form-urlencoded", ""),
            ("dir=TV%2FA+B&recursive=true", nil, ""),
            (#"{"dir":"TV/A B","recursive":true}"#, "application/json", ""),
            (#"{"dir":"TV/A B","recursive":"true"}"#, "application/json; charset=utf-8", ""),
            // `curl -d` says so of any body.
            (#" {"dir":"TV/A B","recursive":1}"#, "application/x-www-form-urlencoded", ""),
            (#"{"recursive":"T"}"#, nil, "?dir=TV/A%20B&recursive=false"),
        ] as [(String, String?, String)])
    func forms(body: String, type: String?, query: String) throws {
        var read = try parameters(body, type, query: query)
        #expect(try read.takeText("dir") == "TV/A B")
        #expect(try read.takeFlag("recursive") == true)
        #expect(read.values.isEmpty)
        #expect(try read.takeText("dir") == nil)
    }

    @Test(
        "What is neither an object nor a form is refused",
        arguments: [
            ("[1]", "application/json", 400), ("{", "application/json", 400), ("\u{1}", "application/json", 400),
            (String(repeating: "[", count: 60_000), "application/json", 400),
            (
                #"{"a":"# + String(repeating: "[", count: 30_000) + String(repeating: "]", count: 30_000) + "}",
                "application/json", 400
            ),
            ("a=b", "multipart/form-data; boundary=x", 415), ("a", "text/plain", 415),
        ])
    func refusals(body: String, type: String, status: Int) {
        do throws(RequestFailure) {
            _ = try parameters(body, type)
            Issue.record("\(body.prefix(20)) is taken")
        } catch {
            #expect(error.status == status)
        }
    }

    @Test("A value of another type is refused, and null is none")
    func types() throws {
        let body = #"{"path":["a"],"recursive":"maybe","bytes":-1,"none":null,"number":7,"digits":"12"}"#
        var read = try parameters(body, "application/json")
        #expect(throws: RequestFailure.self) { try read.takeText("path") }
        #expect(throws: RequestFailure.self) { try read.takeFlag("recursive") }
        #expect(throws: RequestFailure.self) { try read.takeNumber("bytes") }
        #expect(try read.takeText("none") == nil)
        #expect(try read.takeText("number") == "7")
        #expect(try read.takeNumber("digits") == 12)
    }

    @Test("A call becomes the request of the control socket, and an unknown parameter is refused")
    func requests() throws {
        var request = ServedRequest(method: "POST", target: "/api/v1/refresh", headers: [])
        request.body = Array(#"{"path":"/TV","recursive":"true"}"#.utf8)
        let made = try CommandCalls.request("refresh", request)
        #expect(encodeLine(made) == encodeLine(ControlRequest.refresh("TV", isRecursive: true)))
        #expect(throws: RequestFailure(status: 400, sentence: "pin has no parameter recursive")) {
            try CommandCalls.request("pin", request)
        }
    }
}
