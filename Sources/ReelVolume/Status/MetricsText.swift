/// The numbers of a mount in Prometheus' text form, version 0.0.4.
package func metricsText(_ status: VolumeStatus) -> String {
    var text = ""
    for row in NumberTable.rows {
        let samples = row.samples(status).prefix(mostSamples)
        guard let name = row.name.map({ "reelfs_" + $0 }), !samples.isEmpty else { continue }
        text += "# HELP \(name) \(row.help)\n# TYPE \(name) \(row.kind)\n"
        for sample in samples {
            let pairs = row.label.map { [(name: $0, value: sample.label)] } ?? []
            switch sample.value {
            case .number(let number): text += "\(name)\(labels(pairs)) \(number)\n"
            case .histogram(let counts): text += histogramText(name, pairs, counts)
            }
        }
    }
    return text
}

/// The sources of a catalogue may ask some origins each.
private let mostSamples = 64

private func histogramText(
    _ name: String, _ pairs: [(name: String, value: String)], _ counts: HistogramCounts
) -> String {
    var text = ""
    var sum: Int64 = 0
    for (place, count) in counts.counts.enumerated() {
        sum &+= count
        let isLast = place == HistogramCounts.bounds.count
        let bound = isLast ? "+Inf" : "\(Double(HistogramCounts.bounds[place]) / 1_000_000_000)"
        text += "\(name)_bucket\(labels(pairs + [("le", bound)])) \(sum)\n"
    }
    text += "\(name)_sum\(labels(pairs)) \(Double(counts.nanoseconds) / 1_000_000_000)\n"
    return text + "\(name)_count\(labels(pairs)) \(sum)\n"
}

/// `{name="value",…}`, or nothing; a value comes from outside.
private func labels(_ pairs: [(name: String, value: String)]) -> String {
    if pairs.isEmpty { return "" }
    let words = pairs.map { pair in
        let value = pair.value.unicodeScalars.map { scalar in
            switch scalar {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(scalar)
            }
        }
        return "\(pair.name)=\"\(value.joined())\""
    }
    return "{" + words.joined(separator: ",") + "}"
}
