//! What becomes of the kernel's flows when endpoints leave: connections drain and end, stale flows are forgotten.

use std::time::Instant;

use dataplane::Dataplane;
use plan::Changes;

use super::Worker;
use crate::care::Scope;
use crate::conntrack::{end_drained, forget_stale, tcp_connections};

impl<D: Dataplane> Worker<D> {
    /// Takes note of endpoints that have left. After a start, connections tell who left before.
    pub(super) fn note_drains(&mut self, changes: &Changes) {
        if self.config.proxy_mode == "userspace" {
            return; // what the kernel remembers leads to this process, not to endpoints
        }
        let now = Instant::now();
        self.drains.note(&self.plan, changes, now);
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        if !changes.everything || self.drains.is_empty() {
            return;
        }
        let (drains, plan) = (&mut self.drains, &self.plan);
        let noted = tcp_connections(conntrack, |flow| drains.note_connection(plan, flow, now));
        if let Err(error) = noted {
            tracing::warn!(%error, "connections to endpoints that left earlier are not drained");
        }
    }

    /// Ends the TCP connections whose time to drain is over.
    pub(super) fn end_drained(&mut self) {
        let due = self.drains.due(Instant::now());
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !due.is_empty()) else {
            return;
        };
        match end_drained(conntrack, &self.plan, &due) {
            Ok(count) => {
                tracing::info!(count, "connections to endpoints that have left are ended");
                let ended = count as u64;
                self.board
                    .metrics
                    .update(|values| values.drained_connections_total += ended);
            }
            Err(error) => tracing::warn!(%error, "cannot end connections to endpoints that have left"),
        }
    }

    /// Takes stale flows from the kernel's memory. What fails is tried again with the next change.
    pub(super) fn care(&mut self) {
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !self.scope.is_empty()) else {
            return;
        };
        let began = Instant::now();
        match forget_stale(conntrack, &self.plan, &self.scope) {
            Ok(counts) => {
                self.scope = Scope::default();
                self.board.metrics.update(|values| {
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
            Err(error) => tracing::warn!(%error, "cannot look for stale UDP flows"),
        }
    }
}
