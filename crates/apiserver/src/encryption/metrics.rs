//! Counts of encrypted and decrypted values, under upstream's names (`value/metrics.go`). There is no data key, and so none
//! of the metrics of data keys.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Encryption;
use crate::metrics::Text;

/// The first bound of a histogram; each is twice the one before (upstream's buckets).
const FIRST_BOUND_SECONDS: f64 = 5e-6;
const BOUNDS: usize = 25;

/// Whether a value was encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    FromStorage,
    ToStorage,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::FromStorage => "from_storage",
            Self::ToStorage => "to_storage",
        }
    }
}

/// The counts of an [`Encryption`].
#[derive(Default)]
pub(super) struct TransformationCounts {
    counts: Mutex<Counts>,
    reloads: [AtomicU64; 2],
}

#[derive(Default)]
struct Counts {
    /// By resource, direction, prefix and success: as many as a configuration has resources, times twelve.
    operations: BTreeMap<(String, Direction, &'static str, bool), u64>,
    durations: BTreeMap<(Direction, &'static str), Durations>,
}

#[derive(Default)]
struct Durations {
    buckets: [u64; BOUNDS],
    count: u64,
    sum_seconds: f64,
}

impl TransformationCounts {
    pub(super) fn count(
        &self,
        resource: &str,
        direction: Direction,
        prefix: &'static str,
        is_ok: bool,
        took: Duration,
    ) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts
            .operations
            .entry((resource.to_owned(), direction, prefix, is_ok))
            .or_default() += 1;
        if !is_ok {
            return;
        }
        let durations = counts.durations.entry((direction, prefix)).or_default();
        let seconds = took.as_secs_f64();
        let bucket = bounds().position(|bound| seconds <= bound);
        if let Some(count) = bucket.and_then(|bucket| durations.buckets.get_mut(bucket)) {
            *count += 1;
        }
        durations.count += 1;
        durations.sum_seconds += seconds;
    }

    pub(super) fn reloaded(&self, is_ok: bool) {
        let [failed, done] = &self.reloads;
        let count = if is_ok { done } else { failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Encryption {
    /// Writes the metrics.
    pub(crate) fn render(&self, out: &mut Text) {
        let counts = self.counts.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "apiserver_storage_transformation_operations_total";
        out.head(name, "counter", "Total number of transformations.");
        for ((resource, direction, prefix, is_ok), count) in &counts.operations {
            let status = if *is_ok { "OK" } else { "Unknown" };
            let labels = format!(
                "resource=\"{resource}\",status=\"{status}\",transformation_type=\"{}\",transformer_prefix=\"{prefix}\"",
                direction.name()
            );
            out.value(name, &labels, count);
        }
        let name = "apiserver_storage_transformation_duration_seconds";
        out.head(
            name,
            "histogram",
            "Latencies in seconds of value transformation operations.",
        );
        for ((direction, prefix), durations) in &counts.durations {
            let labels = format!(
                "transformation_type=\"{}\",transformer_prefix=\"{prefix}\"",
                direction.name()
            );
            let buckets = bounds().zip(durations.buckets);
            out.histogram(name, &labels, buckets, durations.count, durations.sum_seconds);
        }
        let name = "apiserver_encryption_config_controller_automatic_reloads_total";
        out.head(
            name,
            "counter",
            "Total number of reload successes and failures of encryption configuration.",
        );
        for (status, count) in ["failure", "success"].iter().zip(&self.counts.reloads) {
            let labels = format!("status=\"{status}\"");
            out.value(name, &labels, count.load(Ordering::Relaxed));
        }
    }
}

fn bounds() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(FIRST_BOUND_SECONDS), |bound| Some(bound * 2.0)).take(BOUNDS)
}
