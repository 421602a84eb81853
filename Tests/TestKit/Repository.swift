/// The directory that holds `Package.swift`.
package let repository = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }
