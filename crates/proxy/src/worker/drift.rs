//! What others did to what is in force: it is watched and mended, and from time to time all is read back.

use std::time::{Duration, Instant};

use dataplane::Dataplane;
use netlink::nftables::ExternalChange;

use super::Worker;
use crate::sources::tampering;

/// The least time between two mendings of what others did: short enough that users hardly notice, long enough that a
/// quarrel with another program does not take a core.
const MEND_PAUSE: Duration = Duration::from_millis(200);

impl<D: Dataplane> Worker<D> {
    /// Begins to watch what others do, once everything is in force: the kernel tells of each element that a
    /// transaction has as soon as anybody listens, which would double the time that the first one takes.
    pub(super) fn watch_others(&mut self) {
        let Some(others) = self.others.take() else {
            return;
        };
        let watched = self.dataplane.watch().and_then(|monitor| match monitor {
            Some(monitor) => tampering(monitor, others),
            None => Ok(()),
        });
        if let Err(error) = watched {
            tracing::warn!(%error, "what others do to the rules is found by the next repair only");
        }
    }

    /// Mends what others did, with pauses: they may do it again and again.
    pub(super) fn mend(&mut self) {
        let now = Instant::now();
        if self.tampered.is_empty() || now < self.mend_at || !self.synced.all() {
            return;
        }
        self.mend_at = now + MEND_PAUSE;
        let touched = std::mem::take(&mut self.tampered);
        match self.dataplane.repair_external(&self.plan, &touched) {
            Ok(0) => {}
            Ok(elements) => {
                tracing::warn!(
                    elements,
                    "another program changed what is in force, and it was mended"
                );
                self.board
                    .metrics
                    .update(|values| values.repaired_elements_total += elements as u64);
            }
            Err(error) => {
                tracing::error!(%error, "cannot mend what another program changed");
                self.tampered = vec![ExternalChange::Everything];
            }
        }
    }

    /// Reads back what is in force and mends it.
    pub(super) fn repair(&mut self) {
        if !self.synced.all() || !self.pending.is_empty() {
            return;
        }
        match self.dataplane.repair(&self.plan) {
            Ok(0) => {}
            Ok(elements) => {
                tracing::warn!(
                    elements,
                    "what is in force was not what it should be, and was mended"
                );
                self.board
                    .metrics
                    .update(|values| values.repaired_elements_total += elements as u64);
            }
            Err(error) => tracing::error!(%error, "cannot read back what is in force"),
        }
    }
}
