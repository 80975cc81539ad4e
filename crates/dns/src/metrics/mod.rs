//! Metrics of the server, with the names and help texts of CoreDNS (DNS-27).
//!
//! Each worker has counters of its own, so that cores do not write to the same memory. A scrape adds them up.

mod counters;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use telemetry::{Histogram, MetricType, MetricsText};

pub(crate) use counters::{Counters, QueryRecord, Source, code_name};

/// Bounds of CoreDNS' durations: 0.25 ms, doubled 15 times.
pub(crate) const DURATION_BOUNDS_SECONDS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    4.096, 8.192,
];
/// Bounds of CoreDNS' programming duration: 1 ms, doubled 19 times.
const PROGRAMMING_BOUNDS_SECONDS: [f64; 20] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
    32.768, 65.536, 131.072, 262.144, 524.288,
];
/// Labels of every metric of CoreDNS' server. There is one server block.
pub(crate) const SERVER_LABELS: &str = "server=\"dns://:53\",view=\"\"";

/// All metrics of the server.
#[derive(Debug)]
pub struct Metrics {
    workers: Mutex<Vec<Arc<Counters>>>,
    /// Counters of tasks that belong to no worker.
    shared: Arc<Counters>,
    programming_seconds: Histogram,
    /// Watch events that the feed applied.
    pub(crate) events: AtomicU64,
    /// Objects that the feed skipped because they are malformed.
    pub(crate) malformed: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) transfers: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let shared = Arc::new(Counters::default());
        Self {
            workers: Mutex::new(vec![shared.clone()]),
            shared,
            programming_seconds: Histogram::new(&PROGRAMMING_BOUNDS_SECONDS),
            events: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Returns new counters for one worker.
    pub(crate) fn register_worker(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(counters.clone());
        counters
    }

    /// Returns the counters of tasks that belong to no worker.
    pub(crate) fn shared(&self) -> Arc<Counters> {
        self.shared.clone()
    }

    /// Records the time from the change of an endpoint of a headless Service until the server answers with its slice.
    pub(crate) fn record_programming(&self, seconds: f64) {
        // The clocks of two hosts may differ: a negative duration counts as none.
        self.programming_seconds.observe(seconds.max(0.0));
    }

    /// Writes all metrics.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let sum = Counters::default();
        for counters in self.workers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.add(counters);
        }
        sum.write(text);
        let name = "coredns_kubernetes_dns_programming_duration_seconds";
        text.family(
            name,
            MetricType::Histogram,
            "Histogram of the time (in seconds) it took to program a dns instance.",
        );
        let labels = "service_kind=\"headless_with_selector\"";
        text.histogram(name, labels, &self.programming_seconds);
        for (name, help, counter) in [
            (
                "coredns_panics_total",
                "A metrics that counts the number of panics.",
                &self.panics,
            ),
            (
                "portolan_dns_watch_events_total",
                "Number of watch events applied to the zone.",
                &self.events,
            ),
            (
                "portolan_dns_malformed_objects_total",
                "Number of objects skipped because they are malformed.",
                &self.malformed,
            ),
            (
                "portolan_dns_connections_refused_total",
                "Number of TCP connections refused because of connection limits.",
                &self.refused_connections,
            ),
            (
                "portolan_dns_transfers_total",
                "Number of zone transfers started.",
                &self.transfers,
            ),
        ] {
            text.single(name, MetricType::Counter, help, counter.load(Ordering::Relaxed));
        }
        text.family(
            "coredns_build_info",
            MetricType::Gauge,
            "A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was built.",
        );
        let labels = concat!(
            "goversion=\"\",revision=\"\",version=\"portolan-",
            env!("CARGO_PKG_VERSION"),
            "\""
        );
        text.sample("coredns_build_info", labels, 1);
    }
}
