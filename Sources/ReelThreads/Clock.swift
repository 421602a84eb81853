import Glibc

/// The time since some fixed moment, for deadlines and rates (clock_gettime(2), CLOCK_MONOTONIC).
package func now() -> Duration {
    #if DEBUG
        if let simulation = Simulation.ofThisThread { return simulation.now() }
    #endif
    var moment = timespec()
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return .seconds(moment.tv_sec) + .nanoseconds(moment.tv_nsec)
}

/// The time in seconds since 1970, for dates (time(2)).
package func wallClock() -> Int64 { wallNanoseconds() / 1_000_000_000 }

/// The time in nanoseconds since 1970 (clock_gettime(2), CLOCK_REALTIME).
package func wallNanoseconds() -> Int64 {
    #if DEBUG
        if let simulation = Simulation.ofThisThread { return simulation.wallClock }
    #endif
    var moment = timespec()
    clock_gettime(CLOCK_REALTIME, &moment)
    return Int64(moment.tv_sec) * 1_000_000_000 + Int64(moment.tv_nsec)
}

/// The minutes since midnight at a time, where the system's time zone has summer time, too (localtime_r(3)).
/// - Parameter seconds: since 1970.
package func minuteOfDay(_ seconds: Int64 = wallClock()) -> Int {
    var moment = time_t(seconds)
    var parts = tm()
    // localtime_r(3) need not look at TZ, and the zone's file may be another one by now.
    tzset()
    localtime_r(&moment, &parts)
    return Int(parts.tm_hour) * 60 + Int(parts.tm_min)
}
