//! Metrics of the EndpointSliceMirroring controller (EPM-13).

use std::collections::HashMap;
use std::time::Duration;

use api::object::ObjectKey;
use telemetry::{Histogram, MetricsText};

use super::{Changes, help, per_sync, write_gauge, write_histogram};
use crate::mirroring::Counts;

const PREFIX: &str = "endpoint_slice_mirroring_controller";

/// Metrics of the mirroring of Endpoints.
#[derive(Debug)]
pub(crate) struct MirroringMetrics {
    added_per_sync: Histogram,
    updated_per_sync: Histogram,
    removed_per_sync: Histogram,
    skipped_per_sync: Histogram,
    sync_duration: Histogram,
    pub(crate) changes: Changes,
    mirrored: HashMap<ObjectKey, Counts>,
}

impl Default for MirroringMetrics {
    fn default() -> Self {
        Self {
            added_per_sync: per_sync(),
            updated_per_sync: per_sync(),
            removed_per_sync: per_sync(),
            skipped_per_sync: per_sync(),
            sync_duration: Histogram::exponential(0.001, 2.0, 15),
            changes: Changes::default(),
            mirrored: HashMap::new(),
        }
    }
}

impl MirroringMetrics {
    /// Records the counts of a sync. Endpoints without mirrored slices are removed.
    pub(crate) fn observe_changes(&mut self, key: &ObjectKey, counts: Counts) {
        if counts.is_nothing() {
            self.mirrored.remove(key);
            return;
        }
        self.added_per_sync.observe(counts.added as f64);
        self.updated_per_sync.observe(counts.updated as f64);
        self.removed_per_sync.observe(counts.removed as f64);
        self.skipped_per_sync.observe(counts.skipped as f64);
        self.mirrored.insert(key.clone(), counts);
    }

    /// Records the duration of a sync, including its writes.
    pub(crate) fn observe_sync(&mut self, duration: Duration) {
        self.sync_duration.observe(duration.as_secs_f64());
    }

    pub(super) fn reset_gauges(&mut self) {
        self.mirrored.clear();
    }

    /// Writes the metrics.
    pub(super) fn write(&self, text: &mut MetricsText) {
        let name = |suffix: &str| format!("{PREFIX}_{suffix}");
        write_histogram(
            text,
            &name("endpoints_added_per_sync"),
            "Number of endpoints added on each Endpoints sync",
            &self.added_per_sync,
        );
        write_histogram(
            text,
            &name("endpoints_updated_per_sync"),
            "Number of endpoints updated on each Endpoints sync",
            &self.updated_per_sync,
        );
        write_histogram(
            text,
            &name("endpoints_removed_per_sync"),
            "Number of endpoints removed on each Endpoints sync",
            &self.removed_per_sync,
        );
        write_histogram(
            text,
            &name("addresses_skipped_per_sync"),
            "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
            &self.skipped_per_sync,
        );
        write_histogram(
            text,
            &name("endpoints_sync_duration"),
            "Duration of syncEndpoints() in seconds",
            &self.sync_duration,
        );
        let sum = |of: fn(&Counts) -> usize| self.mirrored.values().map(of).sum();
        write_gauge(
            text,
            &name("endpoints_desired"),
            help::ENDPOINTS_DESIRED,
            sum(|counts| counts.endpoints),
        );
        write_gauge(
            text,
            &name("num_endpoint_slices"),
            help::SLICES,
            sum(|counts| counts.slices),
        );
        write_gauge(
            text,
            &name("desired_endpoint_slices"),
            help::SLICES_DESIRED,
            sum(|counts| counts.slices_desired),
        );
        self.changes.write(text, &name("changes"));
    }
}
