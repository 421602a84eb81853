import ReelListener

/// The description of the HTTP server's paths, as OpenAPI 3.0 has it.
enum OpenAPI {
    static func document(_ routes: [Route]) -> JSONValue {
        var paths: [String: JSONValue] = ["/files/{path}": files]
        for route in routes { paths[route.path] = description(of: route) }
        return [
            "openapi": "3.0.3",
            "info": [
                "title": "reelfs", "version": .text(Program.version),
                "description": "The HTTP server of a mount, or of `reelfs serve`. See the page Serving.",
            ],
            "paths": .object(paths),
            "components": [
                "securitySchemes": [
                    "token": [
                        "type": "http", "scheme": "bearer",
                        "description": "The word in listen.token of the cache directory; of no use with credentials.",
                    ],
                    "credentials": [
                        "type": "http", "scheme": "basic",
                        "description": "Those of --listen-credentials, which every request needs then.",
                    ],
                ],
                "schemas": ["Error": errorSchema],
            ],
        ]
    }

    private static func description(of route: Route) -> JSONValue {
        switch route.answer {
        case .document:
            return ["get": ["summary": .text(route.summary), "responses": ["200": answer(route.type)]]]
        case .call:
            var call: [String: JSONValue] = [
                "summary": .text(route.summary),
                "responses": [
                    "200": answer(route.type), "400": failure("A parameter is missing or wrong."),
                    "503": failure("Too many calls are under way, or the mount is ending."),
                ],
            ]
            if route.isChanging { call["security"] = [["token": []], ["credentials": []]] }
            if !route.parameters.isEmpty { call["requestBody"] = body(route.parameters) }
            return ["post": .object(call)]
        }
    }

    private static func body(_ parameters: [RouteParameter]) -> JSONValue {
        var properties: [String: JSONValue] = [:]
        for parameter in parameters {
            properties[parameter.name] = ["type": .text(parameter.kind.rawValue), "description": .text(parameter.help)]
        }
        var schema: [String: JSONValue] = ["type": "object", "properties": .object(properties)]
        let required = parameters.filter(\.isRequired).map { JSONValue.text($0.name) }
        if !required.isEmpty { schema["required"] = .list(required) }
        let content: JSONValue = ["schema": .object(schema)]
        return [
            "required": .flag(!required.isEmpty),
            "content": ["application/json": content, "application/x-www-form-urlencoded": content],
        ]
    }

    private static func answer(_ type: String) -> JSONValue {
        let kind: JSONValue = type == "application/json" ? "object" : "string"
        return ["description": "Done.", "content": [type: ["schema": ["type": kind]]]]
    }

    private static func failure(_ text: String) -> JSONValue {
        [
            "description": .text(text),
            "content": ["application/json": ["schema": ["$ref": "#/components/schemas/Error"]]],
        ]
    }

    private static let errorSchema: JSONValue = [
        "type": "object", "properties": ["error": ["type": "string"]], "required": ["error"],
    ]

    private static let files: JSONValue = [
        "get": [
            "summary": "A file, whole or in ranges; a folder's page, or its playlist with `?m3u`.",
            "parameters": [
                [
                    "name": "path", "in": "path", "required": true, "schema": ["type": "string"],
                    "description": "Names with / between them; / at the end for a folder.",
                ]
            ],
            "responses": [
                "200": ["description": "All of it."], "206": ["description": "One range, or several."],
                "404": ["description": "There is no such name."],
            ],
        ]
    ]
}
