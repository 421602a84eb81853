import ReelCache
import ReelCore
import ReelHTTP
import ReelSources
import ReelThreads
import ReelVolume

extension TierPlace {
    /// The bucket that `--tier` names, nil if none. Its keys come from where AWS's tools look for them: those of
    /// `credentials=FILE` are the source's.
    /// - Parameter key: of an encrypted cache, under which the bucket's objects are encrypted as well.
    static func given(_ options: MountOptions, key: SecretBytes?) throws(Failure) -> TierPlace? {
        guard let name = options.tier, let address = S3Address(options.address(of: name)) else { return nil }
        var options = options
        options.credentialsFile = nil
        let access = try S3Access(options, nil)
        var transport = TransportConfiguration(version: Program.version)
        (transport.signingKey, transport.region) = (access.key, access.region)
        transport.keySource = access.key.map { [options] in S3Access.source(options, first: $0) }
        transport.trustedOrigins = [address.root.origin]
        transport.connectTimeout = .seconds(1)
        transport.followsRedirects = false
        if let agent = options.userAgent { transport.userAgent = agent }
        if let file = options.authorityFile {
            transport.certificateAuthorities =
                try PEMFile(file, kind: "authority file", mustHold: "CERTIFICATE", isSecret: false).path
        }
        do throws(TransportError) { try transport.check() } catch { throw .usage("\(error)") }
        let seal = TierSeal(key: key, bucket: address.name)
        return TierPlace(address, name: name, seal: seal) { [transport] line in
            var transport = transport
            transport.line = line
            guard let origin = try? CurlOrigin(transport) else { return nil }
            return TierConnection(origin) { origin.shutdown() }
        }
    }
}
