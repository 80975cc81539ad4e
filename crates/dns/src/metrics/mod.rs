//! What the server counts, under CoreDNS' names (DNS-27).
//!
//! Every loop has counters of its own, so that cores do not write to the same memory; they are added up when
//! somebody asks.

mod counters;
mod histogram;
mod rest_client;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use telemetry::{Counted, Text};

pub(crate) use counters::{Counters, Ended, Source, code_name};
pub(crate) use histogram::Histogram;
pub(crate) use rest_client::write as write_requests;

/// 0.25 ms doubled 15 times: the buckets of CoreDNS' durations.
pub(crate) const DURATION_BOUNDS_SECONDS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    4.096, 8.192,
];
/// 1 ms doubled 19 times: the buckets of CoreDNS' programming duration.
const PROGRAMMING_BOUNDS_SECONDS: [f64; 20] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
    32.768, 65.536, 131.072, 262.144, 524.288,
];
/// Labels that every metric of CoreDNS' server has. There is one server block.
pub(crate) const SERVER_LABELS: &str = "server=\"dns://:53\",view=\"\"";

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    lanes: Mutex<Vec<Arc<Counters>>>,
    /// What tasks count that have no loop of their own.
    shared: Arc<Counters>,
    programming: Histogram,
    /// Events applied and objects left out, for the feed.
    pub(crate) events: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) transfers: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let shared = Arc::new(Counters::default());
        Self {
            lanes: Mutex::new(vec![shared.clone()]),
            shared,
            programming: Histogram::new(&PROGRAMMING_BOUNDS_SECONDS),
            events: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            refused_connections: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Counters for one more loop.
    pub(crate) fn lane(&self) -> Arc<Counters> {
        let lane = Arc::new(Counters::default());
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.push(lane.clone());
        lane
    }

    /// Counters for tasks that have no loop.
    pub(crate) fn shared(&self) -> Arc<Counters> {
        self.shared.clone()
    }

    /// Notes how long it took from the change that led to a slice of a headless Service until it is answered.
    pub(crate) fn programmed(&self, seconds: f64) {
        self.programming.observe(seconds);
    }

    /// Writes all of them.
    pub(crate) fn write(&self, text: &mut Text) {
        let sum = Counters::default();
        for lane in self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.add(lane);
        }
        sum.write(text);
        let name = "coredns_kubernetes_dns_programming_duration_seconds";
        text.family(name, Counted::Histogram);
        self.programming
            .write(text, name, "service_kind=\"headless_with_selector\"");
        for (name, counter) in [
            ("coredns_panics_total", &self.panics),
            ("portolan_dns_watch_events_total", &self.events),
            ("portolan_dns_malformed_objects_total", &self.malformed),
            (
                "portolan_dns_connections_refused_total",
                &self.refused_connections,
            ),
            ("portolan_dns_transfers_total", &self.transfers),
        ] {
            text.family(name, Counted::Counter);
            text.sample(name, "", counter.load(Ordering::Relaxed));
        }
        text.family("coredns_build_info", Counted::Gauge);
        let labels = concat!(
            "goversion=\"\",revision=\"\",version=\"portolan-",
            env!("CARGO_PKG_VERSION"),
            "\""
        );
        text.sample("coredns_build_info", labels, 1);
    }
}
