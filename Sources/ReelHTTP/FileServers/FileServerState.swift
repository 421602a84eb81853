import ReelCore

/// What is known of an origin that is a file server: the connections of FTP, the files of SFTP.
struct FileServerState {
    /// The lanes of an FTP server, the newest last.
    private var lanes: [SessionLane] = []
    /// The files of an SFTP server, by URL: it gives a file's length only in answer to a separate request.
    private var files: [String: FileFacts] = [:]
    /// Whether a session with it has begun, so that keys and login are right.
    private(set) var hasBegun = false

    /// More than run at once: the oldest that no handle uses goes with its connection.
    private static let mostLanes = 8
    /// The most that programs have open at a time.
    private static let mostFiles = 256

    /// A lane that no handle uses, nil if there is no memory.
    /// - Parameter isNew: without a connection.
    mutating func freeLane(isNew: Bool) -> SessionLane? {
        for index in lanes.indices.reversed() where isKnownUniquelyReferenced(&lanes[index]) {
            if lanes[index].isOver {
                lanes.remove(at: index)
            } else if !isNew {
                return lanes[index]
            }
        }
        if lanes.count >= Self.mostLanes {
            for index in lanes.indices where isKnownUniquelyReferenced(&lanes[index]) {
                lanes.remove(at: index)
                break
            }
        }
        guard let lane = SessionLane() else { return nil }
        lanes.append(lane)
        return lane
    }

    /// A session has brought an answer.
    mutating func began() { hasBegun = true }

    /// nil: the file was not asked about, or has changed.
    func facts(of place: ResourceURL) -> FileFacts? { files[place.text] }

    mutating func learn(_ facts: FileFacts, of place: ResourceURL) {
        if files.count >= Self.mostFiles { files = [:] }
        files[place.text] = facts
    }

    /// The file has changed.
    mutating func forget(_ place: ResourceURL) { files[place.text] = nil }
}
