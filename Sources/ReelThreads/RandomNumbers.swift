/// Random numbers for what is no secret: pauses, names, choices. Those of the system, except in a simulation.
package struct RandomNumbers: RandomNumberGenerator {
    private var system = SystemRandomNumberGenerator()

    package init() {}

    package mutating func next() -> UInt64 {
        #if DEBUG
            if let simulation = Simulation.ofThisThread { return simulation.randomNumber() }
        #endif
        return system.next()
    }

    /// A number from 0 to 1.
    package static func fraction() -> Double {
        var numbers = Self()
        return .random(in: 0...1, using: &numbers)
    }
}
