//! Metrics of the controllers, with the names and help texts of upstream (EPS-27, EPM-13).
//!
//! The metrics exist for the whole process. Caches and queues are created again each time the process becomes leader.

mod mirroring;
mod slices;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use client::Client;
use jiff::Timestamp;
use reconcile::metrics::{QueueMetrics, QueueRegistry};
use telemetry::{Histogram, MetricType, MetricsText};
use tokio::sync::watch;

use crate::endpoint_slice::Report;

pub(crate) use mirroring::MirroringMetrics;
pub(crate) use slices::{SliceMetrics, SyncResult};

/// The metrics of all controllers.
#[derive(Debug, Default)]
pub struct Metrics {
    values: Mutex<Values>,
    queues: QueueRegistry,
}

/// Values by controller.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) slices: SliceMetrics,
    pub(crate) mirroring: MirroringMetrics,
    election: Option<(String, watch::Receiver<bool>)>,
    client: Option<Client>,
    phase: Phase,
}

/// The phase of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits to become leader.
    #[default]
    StandingBy,
    /// The process is the leader and reads the initial lists.
    Reading,
    /// The process is the leader, with complete caches.
    Working,
}

impl Metrics {
    /// Adds the leader election in which this process is a candidate.
    pub fn elect(&self, name: &str, is_leader: watch::Receiver<bool>) {
        self.values().election = Some((name.to_owned(), is_leader));
    }

    /// Adds the metrics of the requests of this client.
    pub fn set_client(&self, client: Client) {
        self.values().client = Some(client);
    }

    /// Renders all metrics as text.
    pub fn render(&self, now: Instant) -> String {
        let mut text = MetricsText::default();
        {
            let values = self.values();
            values.slices.write(&mut text);
            values.mirroring.write(&mut text);
            if let Some((name, is_leader)) = &values.election {
                client::election::write_metrics(&mut text, name, *is_leader.borrow());
            }
            if let Some(client) = &values.client {
                client.write_metrics(&mut text, "");
            }
        }
        self.queues.write(now, &mut text);
        telemetry::write_process(&mut text);
        text.finish()
    }

    /// Returns true unless this process is reading initial lists.
    pub fn is_ready(&self) -> bool {
        self.values().phase != Phase::Reading
    }

    /// Returns the metrics of a new queue. Its name is upstream's where upstream has the queue.
    pub(crate) fn register_queue(&self, name: &'static str) -> Arc<QueueMetrics> {
        self.queues.register(name)
    }

    /// Sets the phase of this process.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut values = self.values();
        values.phase = phase;
        if phase != Phase::Working {
            // Gauges describe the cluster: only the leader has complete caches.
            values.slices.reset_gauges();
            values.mirroring.reset_gauges();
        }
    }

    /// Changes values.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Values)) {
        change(&mut self.values());
    }

    /// Records the time from a change to the write of its slices.
    pub(crate) fn observe_programming(&self, trigger: Timestamp, now: Timestamp) {
        let seconds = now.duration_since(trigger).as_secs_f64();
        self.update(|values| {
            values
                .slices
                .programming_duration_seconds
                .observe(seconds.max(0.0))
        });
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers of created, updated and deleted slices.
#[derive(Debug, Default)]
pub(crate) struct Changes([u64; 3]);

impl Changes {
    /// Adds the result of a series of writes.
    pub(crate) fn count(&mut self, report: &Report) {
        let updated = report.written.len() - report.created.min(report.written.len());
        let rounds = [report.created, updated, report.deleted.len()];
        for (sum, count) in self.0.iter_mut().zip(rounds) {
            *sum += count as u64;
        }
    }

    fn write(&self, text: &mut MetricsText, name: &str) {
        text.family(name, MetricType::Counter, "Number of EndpointSlice changes");
        for (operation, count) in ["create", "update", "delete"].iter().zip(self.0) {
            text.sample(name, &format!("operation=\"{operation}\""), count);
        }
    }
}

/// Help texts that the EndpointSlice controller and the mirroring controller share.
mod help {
    pub(super) const ENDPOINTS_DESIRED: &str = "Number of endpoints desired";
    pub(super) const SLICES: &str = "Number of EndpointSlices";
    pub(super) const SLICES_DESIRED: &str =
        "Number of EndpointSlices that would exist with perfect endpoint allocation";
}

/// Returns an empty histogram of endpoints or addresses per sync, with upstream's buckets: 2 doubled 14 times.
fn per_sync() -> Histogram {
    Histogram::exponential(2.0, 2.0, 15)
}

fn write_histogram(text: &mut MetricsText, name: &str, help: &str, histogram: &Histogram) {
    text.family(name, MetricType::Histogram, help);
    text.histogram(name, "", histogram);
}

fn write_gauge(text: &mut MetricsText, name: &str, help: &str, value: usize) {
    text.single(name, MetricType::Gauge, help, value);
}

#[cfg(test)]
mod tests;
