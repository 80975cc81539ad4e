//! Metrics of requests, as in client-go: `rest_client_requests_total` and `rest_client_request_duration_seconds`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;

/// Upper bounds of the buckets of durations in seconds (the default buckets of Prometheus).
pub(crate) const REQUEST_BOUNDS_SECONDS: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Number of buckets: one more than bounds.
const BUCKETS: usize = REQUEST_BOUNDS_SECONDS.len() + 1;

/// Counts of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    /// Requests by method and status code; `None` for requests without a response.
    pub(crate) ended: BTreeMap<(String, Option<u16>), u64>,
    /// Durations until the response header, by method.
    pub(crate) durations: BTreeMap<String, Durations>,
}

/// Histogram of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Durations {
    /// Requests per bucket of [`REQUEST_BOUNDS_SECONDS`]; the last bucket has no upper bound.
    pub(crate) counts: [u64; BUCKETS],
    /// Sum in seconds.
    pub(crate) sum_seconds: f64,
}

/// Counters behind a lock: requests are rare, because components watch instead of polling.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Requests>);

impl Counters {
    /// Counts a request with the status code of its response, or `None` without a response.
    pub(crate) fn count(&self, method: &Method, code: Option<u16>, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let bucket = REQUEST_BOUNDS_SECONDS.partition_point(|bound| *bound < seconds);
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.ended.entry((method.to_string(), code)).or_default() += 1;
        let durations = requests.durations.entry(method.to_string()).or_default();
        durations.sum_seconds += seconds;
        if let Some(count) = durations.counts.get_mut(bucket) {
            *count += 1;
        }
    }

    /// Returns the counts.
    pub(crate) fn read(&self) -> Requests {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
