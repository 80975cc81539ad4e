//! Writes of the edge's report.

use client::{Client, WallClock};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::RETRY_PERIOD;
use crate::edge_report::{self, RENEW_PERIOD, Report};

/// Writes the report of this node if it changes, and renews it while it has faults. Nothing is written before the first
/// fault.
pub(super) struct ReportWriter {
    client: Client,
    node_name: String,
    written: Report,
    /// The write in flight, and its success.
    pub(super) write: JoinSet<(Report, bool)>,
    /// Time of the next renewal of a report with faults.
    renew_at: Option<Instant>,
    /// Time of the next attempt after a failed write.
    retry_at: Option<Instant>,
}

impl ReportWriter {
    pub(super) fn new(client: Client, node_name: String) -> Self {
        Self {
            client,
            node_name,
            written: Report::new(),
            write: JoinSet::new(),
            renew_at: None,
            retry_at: None,
        }
    }

    /// Starts a write if the report has changed or is due for renewal, and no write is in flight.
    pub(super) fn update(&mut self, report: Report) {
        let now = Instant::now();
        if !self.write.is_empty() || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.retry_at = None;
        let is_due = self.renew_at.is_some_and(|at| at <= now);
        if report == self.written && !is_due {
            return;
        }
        let (client, node) = (self.client.clone(), self.node_name.clone());
        self.write.spawn(async move {
            let written = edge_report::write(&client, &node, &report, WallClock::system().now()).await;
            if let Err(error) = &written {
                tracing::warn!(%error, "report of ports not written");
            }
            (report, written.is_ok())
        });
    }

    /// Records the result of a write.
    pub(super) fn finish(&mut self, report: Report, is_written: bool) {
        let now = Instant::now();
        self.retry_at = (!is_written).then(|| now + RETRY_PERIOD);
        if is_written {
            self.renew_at = (!report.is_empty()).then(|| now + RENEW_PERIOD);
            self.written = report;
        }
    }

    /// Returns the time of the next write, if one is due.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let next = self.retry_at.or(self.renew_at);
        next.filter(|_| self.write.is_empty())
    }
}
