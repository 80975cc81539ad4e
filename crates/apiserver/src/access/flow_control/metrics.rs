//! Metrics of flow control, with upstream's names where upstream has them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use telemetry::{MetricType, MetricsText};

use super::limits::seat_bounds;
use super::schema::{FlowSchema, PriorityLevel};
use super::{FlowControl, LongRunning, RequestLimits, lock};

/// Reason for the rejection of a short request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rejection {
    /// The queue is full.
    QueueFull,
    /// The wait for a seat timed out.
    TimeOut,
    /// The user exceeds its request rate.
    Rate,
}

impl Rejection {
    const ALL: [Rejection; 3] = [Rejection::QueueFull, Rejection::TimeOut, Rejection::Rate];

    /// Returns the value of the label `reason`: upstream's, and `rate`, which upstream does not have.
    fn reason(self) -> &'static str {
        match self {
            Rejection::QueueFull => "queue-full",
            Rejection::TimeOut => "time-out",
            Rejection::Rate => "rate",
        }
    }
}

/// Counters of all flow schemas.
pub(super) struct Counts {
    limits: RequestLimits,
    by_schema: [SchemaCounts; FlowSchema::ALL.len()],
    long_running_rejected: [AtomicU64; LongRunning::ALL.len()],
}

/// Counters of a flow schema.
#[derive(Default)]
struct SchemaCounts {
    dispatched: AtomicU64,
    executing: AtomicI64,
    queued: AtomicI64,
    rejected: [AtomicU64; Rejection::ALL.len()],
}

impl Counts {
    pub(super) fn new(limits: RequestLimits) -> Counts {
        Counts {
            limits,
            by_schema: Default::default(),
            long_running_rejected: Default::default(),
        }
    }

    pub(super) fn count_start(&self, schema: FlowSchema) {
        let counts = &self.by_schema[schema as usize];
        counts.dispatched.fetch_add(1, Ordering::Relaxed);
        counts.executing.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_end(&self, schema: FlowSchema) {
        self.by_schema[schema as usize]
            .executing
            .fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn adjust_queued(&self, schema: FlowSchema, change: i64) {
        self.by_schema[schema as usize]
            .queued
            .fetch_add(change, Ordering::Relaxed);
    }

    pub(super) fn count_rejection(&self, schema: FlowSchema, rejection: Rejection) {
        self.by_schema[schema as usize].rejected[rejection as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_rejected_long_running(&self, kind: LongRunning) {
        self.long_running_rejected[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl FlowControl {
    /// Writes the metrics of flow control.
    pub(crate) fn write_metrics(&self, out: &mut MetricsText) {
        let gauge = |counts: &SchemaCounts, value_of: fn(&SchemaCounts) -> &AtomicI64| {
            value_of(counts).load(Ordering::Relaxed)
        };
        let name = "apiserver_flowcontrol_dispatched_requests_total";
        out.family(
            name,
            MetricType::Counter,
            "Number of requests executed by API Priority and Fairness subsystem",
        );
        for (labels, counts) in self.counts.labelled() {
            out.sample(name, &labels, counts.dispatched.load(Ordering::Relaxed));
        }
        let name = "apiserver_flowcontrol_rejected_requests_total";
        out.family(
            name,
            MetricType::Counter,
            "Number of requests rejected by API Priority and Fairness subsystem",
        );
        for (labels, counts) in self.counts.labelled() {
            for (rejection, count) in Rejection::ALL.iter().zip(&counts.rejected) {
                let labels = format!("{labels},reason=\"{}\"", rejection.reason());
                out.sample(name, &labels, count.load(Ordering::Relaxed));
            }
        }
        let name = "apiserver_flowcontrol_current_executing_requests";
        out.family(name, MetricType::Gauge, "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem");
        for (labels, counts) in self.counts.labelled() {
            out.sample(name, &labels, gauge(counts, |counts| &counts.executing));
        }
        let name = "apiserver_flowcontrol_current_inqueue_requests";
        out.family(
            name,
            MetricType::Gauge,
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        );
        for (labels, counts) in self.counts.labelled() {
            out.sample(name, &labels, gauge(counts, |counts| &counts.queued));
        }
        self.write_seats(out);
        self.write_long_running(out);
    }

    fn write_seats(&self, out: &mut MetricsText) {
        let name = "apiserver_flowcontrol_nominal_limit_seats";
        out.family(
            name,
            MetricType::Gauge,
            "Nominal number of execution seats configured for each priority level",
        );
        let limits = [
            self.counts.limits.concurrent_reads_max,
            self.counts.limits.concurrent_writes_max,
        ];
        for level in PriorityLevel::ALL {
            let seats = limits.iter().filter_map(|limit| seat_bounds(level, *limit));
            let seats: u64 = seats.map(|bounds| u64::from(bounds.seats)).sum();
            out.sample(name, &format!("priority_level=\"{}\"", level.name()), seats);
        }
    }

    fn write_long_running(&self, out: &mut MetricsText) {
        let name = "portolan_apiserver_long_running_requests";
        out.family(
            name,
            MetricType::Gauge,
            "Number of open long-running requests, by kind. A watch with long selectors counts as several.",
        );
        for kind in LongRunning::ALL {
            let held = lock(self.long_running_pool(kind)).held();
            out.sample(name, &format!("kind=\"{}\"", kind.name()), held);
        }
        let name = "portolan_apiserver_long_running_requests_rejected_total";
        out.family(
            name,
            MetricType::Counter,
            "Number of long-running requests rejected by the limits per user or in total, by kind.",
        );
        for (kind, count) in LongRunning::ALL.iter().zip(&self.counts.long_running_rejected) {
            let labels = format!("kind=\"{}\"", kind.name());
            out.sample(name, &labels, count.load(Ordering::Relaxed));
        }
    }
}

impl Counts {
    fn labelled(&self) -> impl Iterator<Item = (String, &SchemaCounts)> {
        FlowSchema::ALL
            .iter()
            .zip(&self.by_schema)
            .map(|(schema, counts)| {
                let level = schema.level().name();
                (
                    format!("flow_schema=\"{}\",priority_level=\"{level}\"", schema.name()),
                    counts,
                )
            })
    }
}
