/// The life of one block. A block counts as filled in every state in which all of its bytes are there.
///
///     empty ─begin─▶ partial ─seal─▶ written ─syncBegins─▶ syncing ─syncEnds─▶ durable
///                       │               ▲                     │
///                       │               └────syncAbandoned────┤
///                       ├─seal (its sync failed)─▶ unkept ◀─syncFails
///                       └─seal (in memory)──▶ memory
///
/// Where room is made ahead of need, a durable block departs: it is empty once its bytes are `gone`, or durable again
/// if it has to `stay`. `leave` makes it empty from every other state: eviction, loss and damage.
enum BlockState: UInt8, CaseIterable, Sendable {
    /// The block has no bytes.
    case empty
    /// Some bytes are there, or are about to be; `BlockTable.Flight` has them. No row covers the block.
    case partial
    /// Filled, in memory because the disk does not take it. No row will ever cover the block.
    case memory
    /// Filled and written; no sync has begun since.
    case written
    /// Filled before the running fdatasync began.
    case syncing
    /// Filled, synced, and covered by a row.
    case durable
    /// No read believes in it any more, and no write fills it yet: its row goes, and then its bytes.
    case departing
    /// Filled, but the sync that was to save it failed, and the kernel reports that only once. No row will ever cover
    /// the block.
    case unkept

    enum Event: CaseIterable, Sendable {
        case begin
        /// All bytes are there and their checksum is known: on the disk, in memory, or on a disk that failed meanwhile.
        case seal, sealInMemory, sealUnkept
        case syncBegins, syncEnds, syncAbandoned, syncFails
        case depart, stay, gone
        case leave
    }

    var isFilled: Bool { self != .empty && self != .partial && self != .departing }

    /// The table of transitions, nil if the event leaves the block as it is.
    func after(_ event: Event) -> BlockState? {
        switch (self, event) {
        case (.empty, .begin): .partial
        case (.partial, .seal): .written
        case (.partial, .sealInMemory): .memory
        case (.partial, .sealUnkept): .unkept
        case (.written, .syncBegins): .syncing
        case (.syncing, .syncEnds): .durable
        case (.syncing, .syncAbandoned): .written
        case (.written, .syncFails), (.syncing, .syncFails): .unkept
        case (.durable, .depart): .departing
        case (.departing, .stay): .durable
        case (.departing, .gone): .empty
        case (.empty, .leave), (.departing, .leave): nil
        case (_, .leave): .empty
        default: nil
        }
    }
}
