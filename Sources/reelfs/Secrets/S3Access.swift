import ReelHTTP
import ReelSources
import ReelThreads

/// The keys that sign the requests to a bucket, and its region.
struct S3Access {
    /// nil: requests are not signed.
    let key: SigningKey?
    let region: String?

    /// Reads the files that hold keys.
    /// - Parameter file: of `credentials=FILE`.
    init(_ options: MountOptions, _ file: CredentialFile?) throws(Failure) {
        let profile = try AWSProfile(home: SourceDirectory.homeDirectory(), needsKey: file?.user == nil)
        region = options.region ?? profile.region
        key = try Self.key(file, profile)
    }

    /// Reads the files again, as keys of a session expire.
    /// - Parameter first: the keys where nothing can be read.
    static func source(
        _ options: MountOptions, first: SigningKey
    ) -> @Sendable (_ deliver: @escaping @Sendable (SigningKey?) -> Void) -> Void {
        var options = options
        options.credentialsFile = options.credentialsFile.map { absolute($0) }
        return { [options] deliver in
            let thread = Thread("keys") {
                let file = options.credentialsFile.map { try? CredentialFile.load($0) }
                // A file that is being written has no keys for a moment.
                let access = file == .some(nil) ? nil : try? S3Access(options, file ?? nil)
                deliver(access?.key ?? first)
            }
            if let thread { thread.detach() } else { deliver(first) }
        }
    }

    private static func key(_ file: CredentialFile?, _ profile: AWSProfile) throws(Failure) -> SigningKey? {
        switch (file?.user, file?.password) {
        // For a bucket that is open to all, and refuses the keys of others.
        case ("", _): return nil
        case (let id?, let secret?): return SigningKey(id: id, secret: secret, token: file?.token)
        case (nil, nil): return profile.key
        default:
            throw .usage(
                "the credentials file of an s3:// source needs username= (the access key) and password= (the secret key)"
            )
        }
    }
}
