//! State machine of the endpoint controllers. Inputs are changes, results and time; outputs are jobs and Events.

use reconcile::events::{CurrentEvents, EventBatch};

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::job::{Job, JobKind, JobResult};
use super::sync_key::{SyncKey, Topic};
use super::work_queues::WorkQueues;
use crate::caches::Caches;
use crate::endpoint_slice::trigger::TriggerTimes;
use crate::metrics::{Metrics, SyncResult};
use crate::options::Options;

/// The caches, queues and Events of the endpoint controllers. It has no clock and performs no I/O.
pub(super) struct EndpointReconciler {
    pub(super) options: Options,
    pub(super) metrics: Arc<Metrics>,
    pub(super) caches: Caches,
    pub(super) queues: WorkQueues,
    /// Work whose last write has an unknown effect: it failed, or its watch was listed again in the meantime. The
    /// objects are read from the server before the next write.
    pub(super) needs_refresh: HashSet<SyncKey>,
    pub(super) slice_triggers: TriggerTimes,
    pub(super) endpoints_triggers: TriggerTimes,
    pub(super) events: CurrentEvents<Topic>,
    pub(super) event_batches: Vec<EventBatch>,
    pub(super) initial_lists: InitialLists,
    /// Jobs that follow from the results of others.
    jobs: Vec<Job>,
}

/// The kinds whose initial list is complete.
#[derive(Default)]
pub(super) struct InitialLists {
    pub(super) slices: bool,
    pub(super) mirrored: bool,
    pub(super) endpoints: bool,
}

impl EndpointReconciler {
    pub(super) fn new(options: Options, metrics: Arc<Metrics>) -> Self {
        Self {
            queues: WorkQueues::new(&options, &metrics),
            options,
            metrics,
            caches: Caches::default(),
            needs_refresh: HashSet::new(),
            slice_triggers: TriggerTimes::default(),
            endpoints_triggers: TriggerTimes::default(),
            events: CurrentEvents::default(),
            event_batches: Vec::new(),
            initial_lists: InitialLists::default(),
            jobs: Vec::new(),
        }
    }

    /// Returns the jobs that are due. Each ends with [`EndpointReconciler::finish`].
    pub(super) fn start_jobs(&mut self, now: Instant) -> Vec<Job> {
        self.queues.wake(now);
        while let Some(work) = self.queues.take(now) {
            self.begin(work, now);
        }
        std::mem::take(&mut self.jobs)
    }

    /// Returns the time at which [`EndpointReconciler::start_jobs`] has jobs if nothing else happens.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.queues.next_wake()
    }

    /// Takes the batches of Events that are to be written.
    pub(super) fn take_event_batches(&mut self) -> Vec<EventBatch> {
        std::mem::take(&mut self.event_batches)
    }

    fn begin(&mut self, work: SyncKey, now: Instant) {
        if !self.needs_refresh.contains(&work) {
            return self.sync(work, now);
        }
        if matches!(work, SyncKey::Slices(_)) {
            self.metrics
                .update(|values| values.slices.count_sync(SyncResult::Stale));
        }
        let kind = work.read_job(&self.caches);
        self.jobs.push(Job { work, kind });
    }

    /// Reconciles work whose caches are current.
    pub(super) fn sync(&mut self, work: SyncKey, now: Instant) {
        // A panic fails this work only. It may interrupt the bookkeeping of Events, never a change of the caches.
        let kind = catch_unwind(AssertUnwindSafe(|| self.job_for(&work)));
        match kind {
            Ok(Some(kind)) => self.jobs.push(Job { work, kind }),
            Ok(None) => self.record_result(&work, None, now),
            Err(_) => self.apply_result(work, JobResult::Panicked, now),
        }
    }
}

impl SyncKey {
    /// Returns the job that reads the objects of this work.
    fn read_job(&self, caches: &Caches) -> JobKind {
        match self {
            Self::Slices(_) | Self::Mirroring(_) => JobKind::ReadSlices,
            Self::Endpoints(key) => {
                let cached = caches.endpoints.get(key);
                JobKind::ReadEndpoints(cached.map(|cached| cached.metadata.uid.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
