import Testing

/// How the caches of the running test are kept, unless the test says otherwise.
package enum CacheKind {
    @TaskLocal package static var isEncrypted = false
}

/// Runs each test case twice: with plain caches, and then with encrypted ones.
package struct BothCaches: TestTrait, SuiteTrait, TestScoping {
    /// Else once, unless long tests are run.
    var isAlways = true

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        try await body()
        if test.tags.contains(.plainOnly) || !isAlways && !LongTests.areRun { return }
        let marking = IssueHandlingTrait.compactMapIssues { issue in
            var issue = issue
            issue.comments.append("The cache is encrypted.")
            return issue
        }
        try await CacheKind.$isEncrypted.withValue(true) {
            try await marking.provideScope(for: test, testCase: testCase, performing: body)
        }
    }
}

extension Trait where Self == BothCaches {
    package static var plainAndEncrypted: BothCaches { BothCaches() }
    /// Where the kind of cache is below all that the test is about: encrypted ones in long runs alone.
    package static var plainAndSeldomEncrypted: BothCaches { BothCaches(isAlways: false) }
}

extension Tag {
    /// For a test in a suite that is run with both kinds of caches, a test of what encrypted ones do not have: values
    /// of the index in clear, blocks on the disk that are not whole, files that the kernel reads itself, reads of the
    /// disk of what was just written.
    @Tag package static var plainOnly: Self
}
