//! The metrics of the audit log.

use super::text::Text;
use crate::audit::Counts;

pub(super) fn render(counts: &Counts, out: &mut Text) {
    let name = "apiserver_audit_event_total";
    let help = "Counter of audit events generated and sent to the audit backend.";
    out.head(name, "counter", help);
    out.value(name, "", counts.events());
    let name = "apiserver_audit_error_total";
    let help = "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.";
    out.head(name, "counter", help);
    for (plugin, count) in counts.errors() {
        out.value(name, &format!("plugin=\"{plugin}\""), count);
    }
    let name = "apiserver_audit_level_total";
    let help = "Counter of policy levels for audit events (1 per request).";
    out.head(name, "counter", help);
    for (level, count) in counts.levels() {
        out.value(name, &format!("level=\"{level}\""), count);
    }
    let name = "apiserver_audit_requests_rejected_total";
    let help = "Counter of apiserver requests rejected due to an error in audit logging backend.";
    out.head(name, "counter", help);
    out.value(name, "", counts.rejections());
}
