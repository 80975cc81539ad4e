//! Handling of flows when endpoints leave: TCP connections drain, and stale conntrack entries are deleted.

use std::time::{Duration, Instant};

use api::object::Protocol;
use dataplane::{ClientSocket, Dataplane};
use plan::Changes;

use super::{SharedStatus, Worker};
use crate::connections::conntrack::{
    DeletedEntries, UnansweredRequests, delete_stale, drained_connections, tcp_connections,
};
use crate::connections::resets::{Peers, TableCapacity};
use crate::connections::stale_flows::{CleanupScope, TrackedFlow};

/// Time for the response to a UDP request that is under way when its endpoint leaves. A server that leaves before it
/// stops, as DNS servers do, responds to it.
const RESPONSE_TIME: Duration = Duration::from_secs(1);
/// Time after which the entries are deleted although endpoints leave repeatedly.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(5);

/// Stale entries of UDP requests that are kept for their responses, and deleted later.
#[derive(Debug)]
pub(super) struct KeptRequests {
    scope: CleanupScope,
    begin: Instant,
    at: Instant,
}

impl KeptRequests {
    /// Adds the entries of a scope to those that wait.
    fn merge(waiting: Option<Self>, scope: CleanupScope, now: Instant) -> Self {
        let mut kept = waiting.unwrap_or_else(|| Self {
            scope: CleanupScope::default(),
            begin: now,
            at: now,
        });
        kept.scope.merge(scope);
        kept.at = (now + RESPONSE_TIME).min(kept.begin + RESPONSE_TIME_MAX);
        kept
    }

    /// Returns the time of the deletion.
    pub(super) fn at(&self) -> Instant {
        self.at
    }
}

impl<D: Dataplane> Worker<D> {
    /// Records endpoints that have left. After a start, existing connections show earlier departures.
    pub(super) fn record_drains(&mut self, changes: &Changes) {
        let now = Instant::now();
        self.drains.record(&self.plan, changes, now);
        if self.config.proxy_mode == "userspace" {
            return; // No connection is older than this process
        }
        if !changes.needs_full_write || self.drains.is_empty() {
            return;
        }
        let (drains, plan) = (&mut self.drains, &self.plan);
        let noted = self
            .dataplane
            .client_sockets(&mut |socket| drains.record_connection(plan, &flow_of(socket), now));
        if let Err(error) = noted {
            tracing::warn!(%error, "existing sockets not checked for draining");
        }
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let noted = tcp_connections(conntrack, |flow| drains.record_connection(plan, flow, now));
        if let Err(error) = noted {
            tracing::warn!(%error, "existing connections not checked for draining");
        }
    }

    /// Ends the TCP connections whose drain period is over.
    pub(super) fn end_drained(&mut self) {
        let now = Instant::now();
        let due = self.drains.due(now);
        if due.is_empty() || self.dataplane.end_drained(&due.endpoints(&self.plan)) {
            return;
        }
        let plan = &self.plan;
        let status = self.shared_status.clone();
        let requested = self.dataplane.destroy_client_sockets(
            &mut |socket| due.ends(plan, &flow_of(socket)),
            Box::new(move |count| count_drained(&status, count)),
        );
        if let Err(error) = requested {
            tracing::warn!(%error, "sockets of drained connections not destroyed");
        }
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let ended = drained_connections(conntrack, &self.plan, &due).and_then(|flows| {
            self.resets
                .end(conntrack, &flows, Peers::Both, TableCapacity::All, now)
        });
        match ended {
            Ok(count) => count_drained(&self.shared_status, count),
            Err(error) => tracing::warn!(%error, "drained connections not reset"),
        }
    }

    /// Deletes stale conntrack entries. A failure is retried with the next change.
    pub(super) fn clean_up_conntrack(&mut self) {
        let Some(conntrack) = self.conntrack.as_mut().filter(|_| !self.cleanup_scope.is_empty()) else {
            return;
        };
        let began = Instant::now();
        match delete_stale(
            conntrack,
            &self.plan,
            &self.cleanup_scope,
            UnansweredRequests::Keep,
        ) {
            Ok(deleted) => {
                let scope = std::mem::take(&mut self.cleanup_scope);
                if deleted.keeps_requests {
                    let waiting = self.kept_requests.take();
                    self.kept_requests = Some(KeptRequests::merge(waiting, scope, began));
                }
                self.record_deleted(deleted, began);
            }
            Err(error) => tracing::warn!(%error, "stale conntrack entries not deleted"),
        }
    }

    /// Deletes the entries of UDP requests that had time for a response. A failure is retried with the next change.
    pub(super) fn clean_up_kept_requests(&mut self) {
        let began = Instant::now();
        let (Some(conntrack), Some(kept)) = (
            self.conntrack.as_mut(),
            self.kept_requests.take_if(|kept| kept.at <= began),
        ) else {
            return;
        };
        match delete_stale(conntrack, &self.plan, &kept.scope, UnansweredRequests::Delete) {
            Ok(deleted) => self.record_deleted(deleted, began),
            Err(error) => {
                tracing::warn!(%error, "stale conntrack entries not deleted");
                self.cleanup_scope.merge(kept.scope);
            }
        }
    }

    fn record_deleted(&self, deleted: DeletedEntries, began: Instant) {
        self.shared_status.metrics.update(|values| {
            let totals = &mut values.conntrack_reconciler_deleted_entries_total;
            for (total, count) in totals.iter_mut().zip(deleted.counts) {
                *total += count;
            }
            values
                .conntrack_reconciler_sync_duration_seconds
                .observe(began.elapsed().as_secs_f64());
        });
    }
}

fn count_drained(status: &SharedStatus, count: usize) {
    if count == 0 {
        return;
    }
    tracing::info!(count, "drained connections reset");
    status
        .metrics
        .update(|values| values.drained_connections_total += count as u64);
}

/// Returns the connection of a socket as connection tracking would show it.
fn flow_of(socket: &ClientSocket) -> TrackedFlow {
    TrackedFlow {
        protocol: Protocol::Tcp,
        destination: socket.frontend,
        endpoint: socket.endpoint,
        is_replied: true,
    }
}

#[cfg(test)]
mod tests;
