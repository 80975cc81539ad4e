//! Metrics with the names and help texts of upstream's service controller (CCM-12).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::{Histogram, MetricType, MetricsText};

/// Counters and latencies of updates of Services.
#[derive(Debug)]
pub struct Metrics {
    syncs: AtomicU64,
    node_sync_errors: AtomicU64,
    node_syncs: Histogram,
    host_updates: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        // Upstream's buckets: powers of two from 1 s to 16,384 s.
        let seconds = || Histogram::exponential(1.0, 2.0, 15);
        Self {
            syncs: AtomicU64::default(),
            node_sync_errors: AtomicU64::default(),
            node_syncs: seconds(),
            host_updates: seconds(),
        }
    }
}

impl Metrics {
    /// Counts an update of a Service.
    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed update after a change of nodes.
    pub(crate) fn node_sync_failed(&self) {
        self.node_sync_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the latency until all Services were updated after a change of nodes.
    pub(crate) fn nodes_synced(&self, took: Duration) {
        self.node_syncs.observe(took.as_secs_f64());
    }

    /// Records the latency of one update after a change of nodes.
    pub(crate) fn host_updated(&self, took: Duration) {
        self.host_updates.observe(took.as_secs_f64());
    }

    /// Number of updates of Services.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Renders the metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        let mut text = MetricsText::default();
        let counters = [
            (
                "service_controller_loadbalancer_sync_total",
                "A metric counting the amount of times any load balancer has been configured, as an effect of \
                 service/node changes on the cluster",
                &self.syncs,
            ),
            (
                "service_controller_nodesync_error_total",
                "A metric counting the amount of times any load balancer has been configured and errored, as an effect \
                 of node changes on the cluster",
                &self.node_sync_errors,
            ),
        ];
        for (name, help, counter) in counters {
            text.single(name, MetricType::Counter, help, counter.load(Ordering::Relaxed));
        }
        let histograms = [
            (
                "service_controller_nodesync_latency_seconds",
                "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
                &self.node_syncs,
            ),
            (
                "service_controller_update_loadbalancer_host_latency_seconds",
                "A metric measuring the latency for updating each load balancer hosts.",
                &self.host_updates,
            ),
        ];
        for (name, help, histogram) in histograms {
            text.family(name, MetricType::Histogram, help);
            text.histogram(name, "", histogram);
        }
        text.finish()
    }
}

#[cfg(test)]
mod tests;
