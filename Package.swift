// swift-tools-version: 6.1
import PackageDescription

// One direction, no circle: a target may import only what stands above it in this file.
// Each line is a cut that a test needs: the pure centre, what a filesystem is, the disk, the network, listing text, the
// filesystem, the kernel.

/// `make fuzz` builds the targets of `FuzzTests` with libFuzzer, which brings its own `main`; the program's is left out.
let isFuzzing = Context.environment["REELFS_FUZZ"] != nil

let parts: [Target.Dependency] = [
    "ReelCore", "ReelFilesystem", "ReelThreads", "ReelCache", "ReelHTTP", "ReelSources", "ReelVolume", "ReelFuse",
    "ReelListener", "CLinux",
    .product(name: "ArgumentParser", package: "swift-argument-parser"),
    .product(name: "Logging", package: "swift-log"),
]
let description = Resource.embedInCode("Calls/openapi.json")
let program: Target =
    isFuzzing
    ? .target(name: "reelfs", dependencies: parts, exclude: ["main.swift"], resources: [description])
    : .executableTarget(name: "reelfs", dependencies: parts, resources: [description])

let parsers: [Target.Dependency] = [
    "ReelCore", "ReelCache", "ReelHTTP", "ReelSources", "ReelFuse", "ReelListener", "reelfs",
]
let fuzzTargets: Target =
    isFuzzing
    ? .executableTarget(
        name: "Fuzz", dependencies: parsers, path: "Tests/FuzzTests", exclude: ["Corpus", "FuzzTests.swift"])
    : .testTarget(name: "FuzzTests", dependencies: parsers + ["TestKit"], exclude: ["Corpus", "Fuzzer.swift"])

let package = Package(
    name: "reelfs",
    products: isFuzzing ? [] : [.executable(name: "reelfs", targets: ["reelfs"])],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CXXHash", pkgConfig: "libxxhash", providers: [.apt(["libxxhash-dev"])]),
        .systemLibrary(name: "CLinux"),

        .target(name: "ReelThreads", dependencies: ["CLinux"]),
        .target(name: "ReelCore", dependencies: ["ReelThreads"]),
        .target(name: "ReelFilesystem", dependencies: ["ReelCore"]),
        .target(
            name: "ReelCache", dependencies: ["ReelCore", "ReelThreads", "CSQLite", "CXXHash", "CCrypto", "CLinux"]),
        .target(name: "ReelHTTP", dependencies: ["ReelCore", "ReelThreads", "CCurl", "CCrypto"]),
        .target(name: "ReelSources", dependencies: ["ReelCore", "ReelThreads"]),
        .target(
            name: "ReelVolume",
            dependencies: [
                "ReelCore", "ReelFilesystem", "ReelThreads", "ReelCache", "ReelSources", "CLinux", "CCrypto",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "ReelFuse",
            dependencies: [
                "ReelCore", "ReelFilesystem", "ReelThreads", "CFuse", "CLinux",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .target(
            name: "ReelListener",
            dependencies: [
                "ReelCore", "ReelFilesystem", "ReelThreads", "CCrypto",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            // In the program itself: it needs no file beside it.
            resources: [
                "page.html", "page.css", "format.js", "calls.js", "playing.js", "line.js", "folder.js", "page.js",
            ].map {
                .embedInCode("Page/" + $0)
            }),
        program,

        // Debug builds alone have the doors of a simulation.
        .executableTarget(
            name: "Simulate",
            dependencies: [
                "ReelFuse", "ReelVolume", "ReelCache", "ReelCore", "ReelFilesystem", "ReelHTTP", "ReelSources",
                "ReelThreads", "CDisk", "CLinux", "TestKit", .product(name: "Logging", package: "swift-log"),
            ], path: "Tests/Simulation", exclude: ["Mutants", "mutants"]),
        .target(name: "CAllocations", path: "Tests/CAllocations"),
        .target(name: "CDisk", path: "Tests/CDisk"),
        .target(name: "CBytes", path: "Tests/CBytes", cSettings: [.unsafeFlags(["-O2"])]),
        .target(
            name: "TestKit", dependencies: ["CBytes", "CCrypto", "ReelCore", "ReelThreads"], path: "Tests/TestKit"),
        .testTarget(name: "ReelCoreTests", dependencies: ["ReelCore", "TestKit"]),
        .testTarget(name: "ReelThreadsTests", dependencies: ["ReelThreads", "TestKit"]),
        .testTarget(name: "ReelCacheTests", dependencies: ["ReelCache", "TestKit"]),
        .testTarget(name: "ReelHTTPTests", dependencies: ["ReelHTTP", "TestKit"]),
        .testTarget(
            name: "ReelSourcesTests", dependencies: ["ReelSources", "TestKit"], exclude: ["make-corpus", "Corpus"]),
        .testTarget(
            name: "ReelFuseTests",
            dependencies: [
                "ReelFuse", "ReelCore", "ReelFilesystem", "ReelThreads", "CFuse", "CLinux", "TestKit",
                .product(name: "Logging", package: "swift-log"),
            ]),
        .testTarget(
            name: "ReelListenerTests",
            dependencies: ["ReelListener", "ReelCore", "ReelFilesystem", "ReelHTTP", "TestKit"]),
        .testTarget(
            name: "reelfsTests",
            dependencies: [
                "reelfs", "ReelCore", "ReelFilesystem", "ReelThreads", "ReelCache", "ReelHTTP", "ReelVolume",
                "ReelFuse", "ReelListener", "TestKit",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], exclude: ["Golden"]),
        .testTarget(
            name: "ReelVolumeTests",
            dependencies: [
                "ReelVolume", "ReelFilesystem", "ReelThreads", "ReelHTTP", "ReelCache", "CAllocations", "CCrypto",
                "Simulate", "TestKit",
            ]),
        .testTarget(
            name: "EndToEndTests",
            dependencies: ["reelfs", "ReelCore", "ReelThreads", "TestKit", "CFuse", "CLinux", "CSQLite"]),
        fuzzTargets,
    ],
    swiftLanguageModes: [.v6]
)

// Each target of `Sources` has a page beside its folders.
for target in package.targets where target.path == nil && [.regular, .executable].contains(target.type) {
    target.exclude.append("README.md")
}
