//! Metrics of HTTP requests: counts by status code, and durations.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use telemetry::{Histogram, MetricType, MetricsText};

use crate::port_key::PortKey;

#[cfg(test)]
mod tests;

/// Bounds in seconds, as Prometheus' client libraries have them.
const DURATION_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Requests of a port.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics(Mutex<Option<Counts>>);

/// Numbers and durations of requests.
#[derive(Debug)]
struct Counts {
    /// By status; there are at most as many entries as statuses.
    codes: BTreeMap<u16, u64>,
    durations: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            codes: BTreeMap::new(),
            durations: Histogram::new(&DURATION_BOUNDS),
        }
    }
}

impl RequestMetrics {
    /// Counts a request that has ended.
    pub(crate) fn count(&self, code: u16, duration: Duration) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = counts.get_or_insert_default();
        *counts.codes.entry(code).or_default() += 1;
        counts.durations.observe(duration.as_secs_f64());
    }
}

/// Writes the metrics of all ports. Ports without requests have none.
pub(crate) fn write<'a>(
    ports: impl Iterator<Item = (&'a PortKey, &'a RequestMetrics)> + Clone,
    text: &mut MetricsText,
) {
    const REQUESTS: &str = "portolan_edge_requests_total";
    const DURATIONS: &str = "portolan_edge_request_duration_seconds";
    let each = |write: &mut dyn FnMut(String, &Counts)| {
        for (key, requests) in ports.clone() {
            let counts = requests.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(counts) = &*counts {
                let (namespace, service) = (&key.service.namespace, &key.service.name);
                let labels = format!(
                    "namespace=\"{namespace}\",service=\"{service}\",port=\"{}\"",
                    key.port
                );
                write(labels, counts);
            }
        }
    };
    text.family(
        REQUESTS,
        MetricType::Counter,
        "Number of HTTP requests served, by status code.",
    );
    each(&mut |labels, counts| {
        for (code, count) in &counts.codes {
            text.sample(REQUESTS, &format!("{labels},code=\"{code}\""), count);
        }
    });
    text.family(
        DURATIONS,
        MetricType::Histogram,
        "Duration of HTTP requests in seconds.",
    );
    each(&mut |labels, counts| text.histogram(DURATIONS, &labels, &counts.durations));
}
