import ReelCache
import ReelCore
import ReelHTTP
import ReelSources
import TestKit

@testable import ReelVolume

extension ScriptedBucket {
    /// The place as the program names it.
    /// - Parameters:
    ///   - key: of an encrypted cache.
    ///   - connections: to the bucket at once.
    ///   - patience: nil for that of the program.
    func place(key: SecretBytes? = nil, connections: Int = 16, patience: Duration? = nil) -> TierPlace {
        let address = S3Address("s3://shared/films", endpoint: server.url("/"))!
        var place = TierPlace(address, name: "s3://shared/films", seal: TierSeal(key: key, bucket: address.name)) {
            line in
            var configuration = TransportConfiguration(version: "test")
            configuration.usesProxies = false
            configuration.connectTimeout = patience ?? .seconds(1)
            configuration.followsRedirects = false
            configuration.connectionsPerOrigin = connections
            configuration.line = line
            guard let origin = try? CurlOrigin(configuration) else { return nil }
            return TierConnection(origin) { origin.shutdown() }
        }
        if let patience { place.patience = patience }
        return place
    }
}
