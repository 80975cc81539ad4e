//! Metrics of transformations, with upstream's names (`value/metrics.go`). The metrics of data keys do not exist,
//! because there are no data keys.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use telemetry::{Histogram, MetricType, MetricsText};

use super::Encryption;

/// Direction of a transformation.
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

/// Counters of an [`Encryption`].
#[derive(Default)]
pub(super) struct TransformationCounts {
    counts: Mutex<Counts>,
    reloads: [AtomicU64; 2],
}

/// Numbers and durations of operations.
#[derive(Default)]
struct Counts {
    /// Counters by resource, direction, prefix and success. The number of resources times twelve bounds the size.
    operations: BTreeMap<(String, Direction, &'static str, bool), u64>,
    durations: BTreeMap<(Direction, &'static str), Histogram>,
}

impl TransformationCounts {
    /// Counts an operation on a value.
    pub(super) fn count(
        &self,
        resource: &str,
        direction: Direction,
        prefix: &'static str,
        is_ok: bool,
        duration: Duration,
    ) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts
            .operations
            .entry((resource.to_owned(), direction, prefix, is_ok))
            .or_default() += 1;
        if !is_ok {
            return;
        }
        let durations = counts.durations.entry((direction, prefix));
        // Upstream's buckets: 5 µs, doubled 24 times.
        let durations = durations.or_insert_with(|| Histogram::exponential(5e-6, 2.0, 25));
        durations.observe(duration.as_secs_f64());
    }

    pub(super) fn count_reload(&self, is_ok: bool) {
        let [failures, successes] = &self.reloads;
        let count = if is_ok { successes } else { failures };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Encryption {
    /// Writes the metrics of the transformer.
    pub(crate) fn write_metrics(&self, out: &mut MetricsText) {
        let counts = self.counts.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "apiserver_storage_transformation_operations_total";
        out.family(name, MetricType::Counter, "Total number of transformations. Successful transformation will have a status 'OK' and a varied status string \
             when the transformation fails. The status, resource, and transformation_type fields can be used for alerting \
             purposes. For example, you can monitor for encryption/decryption failures using the transformation_type \
             (e.g., from_storage for decryption and to_storage for encryption). Additionally, these fields can be used to \
             ensure that the correct transformers are applied to each resource.");
        for ((resource, direction, prefix, is_ok), count) in &counts.operations {
            let status = if *is_ok { "OK" } else { "Unknown" };
            let labels = format!(
                "resource=\"{resource}\",status=\"{status}\",transformation_type=\"{}\",transformer_prefix=\"{prefix}\"",
                direction.name()
            );
            out.sample(name, &labels, count);
        }
        let name = "apiserver_storage_transformation_duration_seconds";
        out.family(
            name,
            MetricType::Histogram,
            "Latencies in seconds of value transformation operations.",
        );
        for ((direction, prefix), durations) in &counts.durations {
            let labels = format!(
                "transformation_type=\"{}\",transformer_prefix=\"{prefix}\"",
                direction.name()
            );
            out.histogram(name, &labels, durations);
        }
        let name = "apiserver_encryption_config_controller_automatic_reloads_total";
        out.family(
            name,
            MetricType::Counter,
            "Total number of reload successes and failures of encryption configuration split by apiserver identity.",
        );
        for (status, count) in ["failure", "success"].iter().zip(&self.counts.reloads) {
            let labels = format!("status=\"{status}\"");
            out.sample(name, &labels, count.load(Ordering::Relaxed));
        }
    }
}
