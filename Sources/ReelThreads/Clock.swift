import Glibc

/// The time since some fixed moment, for deadlines and rates (clock_gettime(2), CLOCK_MONOTONIC).
package func now() -> Duration {
    var moment = timespec()
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return .seconds(moment.tv_sec) + .nanoseconds(moment.tv_nsec)
}

/// The time in seconds since 1970, for dates (time(2)).
package func wallClock() -> Int64 { Int64(time(nil)) }
