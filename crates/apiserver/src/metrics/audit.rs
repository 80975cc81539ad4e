//! Metrics of the audit log.

use telemetry::{MetricType, MetricsText};

use crate::access::audit::Counts;

/// Writes the metrics of the audit log.
pub(super) fn write(counts: &Counts, out: &mut MetricsText) {
    let name = "apiserver_audit_event_total";
    let help = "Counter of audit events generated and sent to the audit backend.";
    out.family(name, MetricType::Counter, help);
    out.sample(name, "", counts.events());
    let name = "apiserver_audit_error_total";
    let help = "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.";
    out.family(name, MetricType::Counter, help);
    for (plugin, count) in counts.errors() {
        out.sample(name, &format!("plugin=\"{plugin}\""), count);
    }
    let name = "apiserver_audit_level_total";
    let help = "Counter of policy levels for audit events (1 per request).";
    out.family(name, MetricType::Counter, help);
    for (level, count) in counts.levels() {
        out.sample(name, &format!("level=\"{level}\""), count);
    }
    let name = "apiserver_audit_requests_rejected_total";
    let help = "Counter of apiserver requests rejected due to an error in audit logging backend.";
    out.family(name, MetricType::Counter, help);
    out.sample(name, "", counts.rejections());
}
