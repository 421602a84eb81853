import ReelHTTP
import ReelSources

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
        switch (file?.user, file?.password) {
        // For a bucket that is open to all, and refuses the keys of others.
        case ("", _): key = nil
        case (let id?, let secret?): key = SigningKey(id: id, secret: secret, token: file?.token)
        case (nil, nil): key = profile.key
        default:
            throw .usage(
                "the credentials file of an s3:// source needs username= (the access key) and password= (the secret key)"
            )
        }
    }
}

extension MountOptions {
    /// The source as `SourceKinds` reads it: the address of a bucket names its endpoint.
    func address(of source: String) -> String { S3Address(source, endpoint: endpoint)?.text ?? source }
}
