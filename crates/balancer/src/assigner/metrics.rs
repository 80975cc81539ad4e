//! Metrics with the names and help texts of upstream's service controller (CCM-12), and the usage of pools, also under
//! MetalLB's names (LBM-17).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::object::AddressPoolUsage;
use telemetry::{Histogram, MetricType, MetricsText};

/// Counters and latencies of updates of Services, and the usage of pools.
#[derive(Debug)]
pub struct Metrics {
    syncs: AtomicU64,
    node_sync_errors: AtomicU64,
    node_syncs: Histogram,
    host_updates: Histogram,
    /// Usage of the pools by name, while this process is the active assigner.
    pools: Mutex<BTreeMap<String, Vec<AddressPoolUsage>>>,
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
            pools: Mutex::default(),
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
    pub(crate) fn nodes_synced(&self, elapsed: Duration) {
        self.node_syncs.observe(elapsed.as_secs_f64());
    }

    /// Records the latency of one update after a change of nodes.
    pub(crate) fn host_updated(&self, elapsed: Duration) {
        self.host_updates.observe(elapsed.as_secs_f64());
    }

    /// Sets the usage of a pool, or removes the pool.
    pub(crate) fn set_pool(&self, name: &str, usage: Option<Vec<AddressPoolUsage>>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        match usage {
            Some(usage) => pools.insert(name.to_owned(), usage),
            None => pools.remove(name),
        };
    }

    /// Removes all pools: another process assigns from now on.
    pub(crate) fn clear_pools(&self) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the number of updates of Services.
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
        self.write_pools(&mut text);
        text.finish()
    }

    /// Writes the metrics of pools.
    fn write_pools(&self, text: &mut MetricsText) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let total = |usage: &AddressPoolUsage| usage.total;
        let assigned = |usage: &AddressPoolUsage| usage.assigned;
        type Count = fn(&AddressPoolUsage) -> i64;
        let family_metrics: [(&str, &str, Count); 2] = [
            (
                "portolan_address_pool_addresses",
                "Addresses of a pool that can be assigned, by family.",
                total,
            ),
            (
                "portolan_address_pool_addresses_assigned",
                "Addresses of a pool that are assigned, by family.",
                assigned,
            ),
        ];
        for (name, help, count) in family_metrics {
            text.family(name, MetricType::Gauge, help);
            for (pool, usage) in pools.iter() {
                for usage in usage {
                    let labels = format!("pool=\"{pool}\",family=\"{}\"", usage.family);
                    text.sample(name, &labels, count(usage));
                }
            }
        }
        let metallb_metrics: [(&str, &str, Count); 2] = [
            (
                "metallb_allocator_addresses_total",
                "Number of usable IP addresses, per pool",
                total,
            ),
            (
                "metallb_allocator_addresses_in_use_total",
                "Number of IP addresses in use, per pool",
                assigned,
            ),
        ];
        for (name, help, count) in metallb_metrics {
            text.family(name, MetricType::Gauge, help);
            for (pool, usage) in pools.iter() {
                let sum = usage.iter().map(count).fold(0, i64::saturating_add);
                text.sample(name, &format!("pool=\"{pool}\""), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests;
