//! Handling of flows when endpoints leave: TCP connections drain, and stale conntrack entries are deleted.

use std::time::Instant;

use dataplane::Dataplane;
use plan::Changes;

use super::Worker;
use crate::conntrack::{delete_stale, end_drained, tcp_connections};
use crate::conntrack_cleanup::CleanupScope;

impl<D: Dataplane> Worker<D> {
    /// Records endpoints that have left. After a start, existing connections show earlier departures.
    pub(super) fn record_drains(&mut self, changes: &Changes) {
        if self.config.proxy_mode == "userspace" {
            return; // conntrack entries lead to this process, not to endpoints
        }
        let now = Instant::now();
        self.drains.record(&self.plan, changes, now);
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        if !changes.everything || self.drains.is_empty() {
            return;
        }
        let (drains, plan) = (&mut self.drains, &self.plan);
        let noted = tcp_connections(conntrack, |flow| drains.record_connection(plan, flow, now));
        if let Err(error) = noted {
            tracing::warn!(%error, "existing connections not checked for draining");
        }
    }

    /// Ends the TCP connections whose drain period is over.
    pub(super) fn end_drained(&mut self) {
        let due = self.drains.due(Instant::now());
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !due.is_empty()) else {
            return;
        };
        match end_drained(conntrack, &self.plan, &due) {
            Ok(count) => {
                tracing::info!(count, "drained connections reset");
                let ended = count as u64;
                self.shared_status
                    .metrics
                    .update(|values| values.drained_connections_total += ended);
            }
            Err(error) => tracing::warn!(%error, "drained connections not reset"),
        }
    }

    /// Deletes stale conntrack entries. A failure is retried with the next change.
    pub(super) fn clean_up_conntrack(&mut self) {
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !self.scope.is_empty()) else {
            return;
        };
        let began = Instant::now();
        match delete_stale(conntrack, &self.plan, &self.scope) {
            Ok(counts) => {
                self.scope = CleanupScope::default();
                self.shared_status.metrics.update(|values| {
                    for (total, count) in values
                        .conntrack_reconciler_deleted_entries_total
                        .iter_mut()
                        .zip(counts)
                    {
                        *total += count;
                    }
                    values
                        .conntrack_reconciler_sync_duration_seconds
                        .observe(began.elapsed().as_secs_f64());
                });
            }
            Err(error) => tracing::warn!(%error, "stale conntrack entries not deleted"),
        }
    }
}
