//! Metrics of the chart.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use telemetry::{MetricType, MetricsText};

use super::shared_state::SharedState;
use crate::feed::FeedMetrics;

/// Classes of status codes that requests are counted by.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Counters of the server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: [AtomicU64; CLASSES.len()],
    logins: AtomicU64,
    failed_logins: AtomicU64,
    reloads: AtomicU64,
    traces: AtomicU64,
    stalled_responses: AtomicU64,
}

impl Metrics {
    /// Counts a request by the status of its response.
    pub(super) fn count_request(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        if let Some(counter) = self.requests.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a login.
    pub(super) fn count_login(&self, is_accepted: bool) {
        let counter = if is_accepted {
            &self.logins
        } else {
            &self.failed_logins
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reader that fell behind.
    pub(super) fn count_reload(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response that its reader did not take in time.
    pub(super) fn count_stalled_response(&self) {
        self.stalled_responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a trace.
    pub(super) fn count_trace(&self) {
        self.traces.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the metrics in the Prometheus text format.
pub(super) fn render(state: &SharedState) -> String {
    let mut text = MetricsText::default();
    let feed_metrics = state.feed.metrics();
    write_requests(&state.metrics, &mut text);
    write_gauges(state, feed_metrics, &mut text);
    write_counters(&state.metrics, feed_metrics, &mut text);
    telemetry::write_process(&mut text);
    text.finish()
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Writes the numbers of requests and logins.
fn write_requests(metrics: &Metrics, text: &mut MetricsText) {
    let name = "portolan_chart_requests_total";
    text.family(
        name,
        MetricType::Counter,
        "Number of requests by the class of their status code.",
    );
    for (class, counter) in CLASSES.iter().zip(&metrics.requests) {
        text.sample(name, &format!("code=\"{class}\""), count(counter));
    }
    let name = "portolan_chart_logins_total";
    text.family(name, MetricType::Counter, "Number of logins by result.");
    text.sample(name, "result=\"success\"", count(&metrics.logins));
    text.sample(name, "result=\"error\"", count(&metrics.failed_logins));
}

fn write_gauges(state: &SharedState, feed_metrics: FeedMetrics, text: &mut MetricsText) {
    let mut gauge = |name, help, value: usize| text.single(name, MetricType::Gauge, help, value);
    gauge(
        "portolan_chart_sessions",
        "Number of open sessions.",
        state.sessions.count(),
    );
    gauge(
        "portolan_chart_streams",
        "Number of open streams of changes.",
        state.feed.readers(),
    );
    gauge(
        "portolan_chart_synced",
        "1 while the caches are complete, 0 without readers or before the first lists.",
        usize::from(feed_metrics.is_synced),
    );
    gauge(
        "portolan_chart_services",
        "Number of Services in the caches.",
        feed_metrics.services,
    );
    gauge(
        "portolan_chart_history_bytes",
        "Estimated memory of the past states in bytes.",
        feed_metrics.history_bytes,
    );
    gauge(
        "portolan_chart_change_log_bytes",
        "Memory of the recent changes in bytes.",
        feed_metrics.change_bytes,
    );
}

fn write_counters(metrics: &Metrics, feed_metrics: FeedMetrics, text: &mut MetricsText) {
    let mut counter = |name, help, value: u64| text.single(name, MetricType::Counter, help, value);
    counter(
        "portolan_chart_examinations_total",
        "Number of examinations of the cluster.",
        feed_metrics.examinations,
    );
    counter(
        "portolan_chart_flow_rows_dropped_total",
        "Number of rows in reports of nodes that were dropped: more than the limit, or of Services that do not exist.",
        feed_metrics.dropped_flow_rows,
    );
    counter(
        "portolan_chart_stalled_responses_total",
        "Number of responses that were dropped because their reader did not take them in time.",
        count(&metrics.stalled_responses),
    );
    counter(
        "portolan_chart_traces_total",
        "Number of traces.",
        count(&metrics.traces),
    );
    counter(
        "portolan_chart_reloads_total",
        "Number of readers that fell behind and took a new snapshot.",
        count(&metrics.reloads),
    );
}
