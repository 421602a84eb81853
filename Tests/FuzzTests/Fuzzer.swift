import Glibc

/// The target that `REELFS_FUZZ` names.
private let target: FuzzTarget = {
    let name = getenv("REELFS_FUZZ").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        fatalError("REELFS_FUZZ is one of \(FuzzTarget.all.map(\.name).joined(separator: " "))")
    }
    return target
}()

/// libFuzzer's entry: its `main` calls this with one input after the other.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: bytes, count: count))
    do { try target.run(input) } catch let finding as FuzzFinding { fatalError("\(finding)") } catch {}
    return 0
}
