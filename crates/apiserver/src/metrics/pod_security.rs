//! Metrics of the admission plugin PodSecurity.

use telemetry::{MetricType, MetricsText};

use crate::registry::admission::PodSecurityCounts;

/// Writes the metrics of Pod Security admission.
pub(super) fn write(counts: &PodSecurityCounts, out: &mut MetricsText) {
    for (name, help, samples) in [
        (
            "pod_security_errors_total",
            "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted \
             profile being used for evaluation.",
            counts.errors(),
        ),
        (
            "pod_security_evaluations_total",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            counts.evaluations(),
        ),
        (
            "pod_security_exemptions_total",
            "Number of exempt requests, not counting ignored or out of scope requests.",
            counts.exemptions(),
        ),
    ] {
        out.family(name, MetricType::Counter, help);
        for (labels, count) in samples {
            out.sample(name, &labels, count);
        }
    }
}
