//! What a client counts about its requests, as `client-go` does: every component of Kubernetes tells these as
//! `rest_client_requests_total` and `rest_client_request_duration_seconds`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;

/// Upper bounds of the durations that are told apart (the default buckets of Prometheus).
pub const REQUEST_BOUNDS_SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Buckets: one more than bounds.
const BUCKETS: usize = REQUEST_BOUNDS_SECONDS.len() + 1;

/// Requests counted so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// By method and status code; without a code, those that were not answered.
    pub ended: BTreeMap<(String, Option<u16>), u64>,
    /// By method: how long it took until the answer began.
    pub durations: BTreeMap<String, Durations>,
}

/// How long requests took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// In each bucket of [`REQUEST_BOUNDS_SECONDS`], and beyond.
    pub counts: [u64; BUCKETS],
    /// All together.
    pub sum_seconds: f64,
}

/// The counters. Requests are few: components watch, they do not poll.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Requests>);

impl Counters {
    /// Counts a request that was answered with `code`, or not at all.
    pub(crate) fn count(&self, method: &Method, code: Option<u16>, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = REQUEST_BOUNDS_SECONDS.partition_point(|bound| *bound < seconds);
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.ended.entry((method.to_string(), code)).or_default() += 1;
        let durations = requests.durations.entry(method.to_string()).or_default();
        durations.sum_seconds += seconds;
        if let Some(count) = durations.counts.get_mut(bucket) {
            *count += 1;
        }
    }

    /// What was counted.
    pub(crate) fn read(&self) -> Requests {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
