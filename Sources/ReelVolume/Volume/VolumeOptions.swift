import ReelCache
import ReelCore
import ReelSources

/// The options of a mount that concern its tree and its reads.
package struct VolumeOptions: Sendable {
    /// The time after which a read, an open or a request for a listing fails.
    package var timeout: Duration
    /// The age at which the next look at a listing refreshes it in the background.
    package var refresh: Duration
    /// The bytes of the next file to fetch once one is played through; 0: none.
    package let prebuffer: Int64
    /// The number of files after the one that is played which are fetched whole; 0: none.
    package let keepNext: Int
    /// The number of episodes of each feed, the newest, which are fetched whole; 0: none.
    package let keepNew: Int
    /// The bytes of one file that one program may cause to be fetched beyond what it reads.
    package let probeLimit: Int64
    /// What files are known by in the cache.
    package let cacheKey: CacheKey
    /// Further bases of the source's tree, in order of preference.
    package let mirrors: [ResourceURL]
    /// The bucket between disk and origin, nil if none.
    package let tier: TierPlace?
    /// Asked before the source, nil if there is none.
    package let via: SharedCache?
    /// Requests for parts of a file begin and end at multiples of this many bytes: a power of two, a block or more.
    package let alignment: Int64
    /// Which folders to list once the source is open.
    package let warm: Warming
    /// Shows `NAME.rclonelink` as the symbolic link NAME.
    package let links: Bool
    /// A file that became longer, while its first and last known blocks stayed the same, is the same file. Not with
    /// mirrors, a tier or a shared cache, which know files by their lengths.
    package let growing: Bool
    /// Gets a record of each request that has ended, on a thread that may wait for a disk, nil if nobody asks.
    package let requestLog: (@Sendable (RequestRecord) -> Void)?
    /// Is notified of what becomes of the tree, nil if nobody asks.
    package let news: TreeNews?
    /// Why the command of the login gave nothing when it last ran, as a sentence; nil if there is no such command, or
    /// it gave something.
    package var loginTrouble: @Sendable () -> String? = { nil }
    /// Opens a list on the local disk.
    let openList: @Sendable (String) -> OpenedList

    package init(
        timeout: Duration = .seconds(30), refresh: Duration = .seconds(300), prebuffer: Int64 = 4 << 20,
        keepNext: Int = 0, keepNew: Int = 0,
        probeLimit: Int64 = 4 << 20, cacheKey: CacheKey = .url, mirrors: [ResourceURL] = [],
        via: SharedCache? = nil, alignment: Int64 = BlockSize.block, tier: TierPlace? = nil, warm: Warming = .none,
        links: Bool = false, growing: Bool = false,
        requestLog: (@Sendable (RequestRecord) -> Void)? = nil, news: TreeNews? = nil,
        openList: @escaping @Sendable (String) -> OpenedList = OpenedList.open
    ) {
        self.openList = openList
        (self.warm, self.tier) = (warm, tier)
        self.links = links
        self.growing = growing && mirrors.isEmpty && tier == nil && via == nil
        self.requestLog = requestLog
        self.news = news
        (self.keepNext, self.keepNew) = (keepNext, keepNew)
        self.probeLimit = max(0, probeLimit)
        self.mirrors = mirrors
        self.via = via
        self.alignment = alignment
        self.cacheKey = cacheKey
        self.timeout = timeout
        self.refresh = refresh
        self.prebuffer = min(max(0, prebuffer), BlockSize.longestFile)
    }
}

/// What a mount lists in the background before a program asks.
package enum Warming: Sendable {
    case none
    /// The whole tree, where its folders are at one place (`Source.listsAhead`).
    case cheap
    /// The whole tree, wherever its folders are.
    case all
}
