//! What the assigner tells about its work, under upstream's names (CCM-12).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use telemetry::{Counted, Histogram, Text};

/// Counters and times of the work on Services.
#[derive(Debug)]
pub struct Metrics {
    syncs: AtomicU64,
    node_sync_errors: AtomicU64,
    node_syncs: Mutex<Histogram>,
    host_updates: Mutex<Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        // Upstream's buckets: 1 s, doubled fourteen times.
        let seconds = || Mutex::new(Histogram::exponential(1.0, 2.0, 15));
        Self {
            syncs: AtomicU64::default(),
            node_sync_errors: AtomicU64::default(),
            node_syncs: seconds(),
            host_updates: seconds(),
        }
    }
}

impl Metrics {
    /// A Service was brought to what it should be.
    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// A Service could not be told of other nodes.
    pub(crate) fn node_sync_failed(&self) {
        self.node_sync_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// All Services were told of other nodes.
    pub(crate) fn nodes_synced(&self, took: Duration) {
        observe(&self.node_syncs, took);
    }

    /// A Service was told of other nodes.
    pub(crate) fn host_updated(&self, took: Duration) {
        observe(&self.host_updates, took);
    }

    /// How often a Service was brought to what it should be.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// All in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = Text::default();
        let counters = [
            ("service_controller_loadbalancer_sync_total", &self.syncs),
            ("service_controller_nodesync_error_total", &self.node_sync_errors),
        ];
        for (name, counter) in counters {
            text.family(name, Counted::Counter);
            text.sample(name, "", counter.load(Ordering::Relaxed));
        }
        let histograms = [
            ("service_controller_nodesync_latency_seconds", &self.node_syncs),
            (
                "service_controller_update_loadbalancer_host_latency_seconds",
                &self.host_updates,
            ),
        ];
        for (name, histogram) in histograms {
            text.family(name, Counted::Histogram);
            let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
            text.observations(name, "", &histogram);
        }
        text.finish()
    }
}

fn observe(histogram: &Mutex<Histogram>, took: Duration) {
    let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
    histogram.observe(took.as_secs_f64());
}

#[cfg(test)]
mod tests;
