//! Metrics in the Prometheus text format, with upstream's names and labels.

mod allocators;
mod audit;
mod pod_security;
mod requests;
pub(crate) mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use api::kind;

use telemetry::{MetricType, MetricsText};

use crate::access::audit::Counts as AuditCounts;
use crate::verbs::resource::Resources;
use crate::version::GIT_VERSION;
pub(crate) use requests::Label;
use requests::Requests;

/// All metrics of the server.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Requests,
    reading: AtomicI64,
    writing: AtomicI64,
    /// Counters of the audit log; `None` without one.
    audit: Option<Arc<AuditCounts>>,
}

/// Request in flight; dropping it ends the count.
pub(crate) struct InFlight<'m> {
    count: &'m AtomicI64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Metrics of a server, with the counters of its audit log.
    pub(crate) fn new(audit: Option<Arc<AuditCounts>>) -> Metrics {
        Metrics {
            audit,
            ..Metrics::default()
        }
    }

    /// Counts a short request in flight until the value is dropped.
    pub(crate) fn begin(&self, is_read: bool) -> InFlight<'_> {
        let count = if is_read { &self.reading } else { &self.writing };
        count.fetch_add(1, Ordering::Relaxed);
        InFlight { count }
    }

    /// Renders all metrics. `others` adds those of other components.
    pub(crate) fn render(&self, resources: &Resources, others: impl FnOnce(&mut MetricsText)) -> String {
        let mut out = MetricsText::default();
        self.requests.write_metrics(&mut out);
        out.family(
            "apiserver_current_inflight_requests",
            MetricType::Gauge,
            "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
        );
        for (kind, count) in [("mutating", &self.writing), ("readOnly", &self.reading)] {
            let labels = format!("request_kind=\"{kind}\"");
            out.sample(
                "apiserver_current_inflight_requests",
                &labels,
                count.load(Ordering::Relaxed),
            );
        }
        resources.watch_counts.write_metrics(&mut out);
        others(&mut out);
        write_objects(resources, &mut out);
        allocators::write(&resources.services, &mut out);
        if let Some(encryption) = &resources.encryption {
            encryption.write_metrics(&mut out);
        }
        pod_security::write(&resources.admission.pod_security.counts, &mut out);
        out.family(
            "kubernetes_build_info",
            MetricType::Gauge,
            "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build \
             date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        );
        let labels = format!("git_version=\"{GIT_VERSION}\",major=\"1\",minor=\"36\"");
        out.sample("kubernetes_build_info", &labels, 1);
        if let Some(counts) = &self.audit {
            audit::write(counts, &mut out);
        }
        telemetry::write_process(&mut out);
        out.finish()
    }
}

/// Renders the number of stored objects of each kind.
fn write_objects(resources: &Resources, out: &mut MetricsText) {
    let name = "apiserver_storage_objects";
    out.family(
        name,
        MetricType::Gauge,
        "[DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the time of last \
         check split by kind. In case of a fetching error, the value will be -1.",
    );
    for kind in kind::all().iter().filter(|kind| kind.is_stored_form()) {
        let listing = resources
            .store
            .index()
            .list(&kind.store_prefix(None), None, None, Some(1));
        if let Ok(listing) = listing {
            let count = listing.entries.len() + listing.remaining;
            out.sample(name, &format!("resource=\"{}\"", kind.qualified_plural()), count);
        }
    }
}

#[cfg(test)]
mod tests;
