//! Drift: external changes are watched and repaired, and the kernel is compared with the plan periodically.

use std::time::{Duration, Instant};

use dataplane::Dataplane;
use netlink::nftables::ExternalChange;

use super::Worker;
use crate::sources::watch_external_changes;

/// Minimum time between two repairs of external changes. It bounds the delay for users, and the CPU time of a conflict
/// with another program.
const EXTERNAL_REPAIR_PAUSE: Duration = Duration::from_millis(200);

impl<D: Dataplane> Worker<D> {
    /// Starts to watch external changes after the first sync. A monitor would double the duration of that sync,
    /// because the kernel reports each element.
    pub(super) fn watch_external_changes(&mut self) {
        let Some(change_sender) = self.change_sender.take() else {
            return;
        };
        let watched = self.dataplane.watch().and_then(|monitor| match monitor {
            Some(monitor) => watch_external_changes(monitor, change_sender),
            None => Ok(()),
        });
        if let Err(error) = watched {
            tracing::warn!(%error, "external changes not reported; periodic repairs find them");
        }
    }

    /// Repairs external changes, with pauses, because they may recur.
    pub(super) fn repair_external_changes(&mut self) {
        let now = Instant::now();
        if self.external_changes.is_empty() || now < self.repair_external_at || !self.synced.is_complete() {
            return;
        }
        self.repair_external_at = now + EXTERNAL_REPAIR_PAUSE;
        let changes = std::mem::take(&mut self.external_changes);
        match self.dataplane.repair_external(&self.plan, &changes) {
            Ok(0) => {}
            Ok(elements) => {
                tracing::warn!(elements, "external changes repaired");
                self.shared_status
                    .metrics
                    .update(|values| values.repaired_elements_total += elements as u64);
            }
            Err(error) => {
                tracing::error!(%error, "external changes not repaired");
                self.external_changes = vec![ExternalChange::Everything];
            }
        }
    }

    /// Compares the kernel with the plan and repairs differences.
    pub(super) fn repair(&mut self) {
        if !self.synced.is_complete() || !self.pending.is_empty() {
            return;
        }
        match self.dataplane.repair(&self.plan) {
            Ok(0) => {}
            Ok(elements) => {
                tracing::warn!(elements, "drift repaired");
                self.shared_status
                    .metrics
                    .update(|values| values.repaired_elements_total += elements as u64);
            }
            Err(error) => tracing::error!(%error, "comparison with the kernel failed"),
        }
        self.two_tier_state.verify();
        self.report_dataplane_fault();
    }
}
