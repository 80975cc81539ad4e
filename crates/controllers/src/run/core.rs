//! The core: changes, answers and the time in; jobs and Events out. It waits for nothing and knows no clock.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::Options;
use super::job::{Action, Job, Outcome};
use super::lanes::Lanes;
use super::work::{Topic, Work};
use crate::endpointslice::trigger::TriggerTimes;
use crate::events::{Notice, Told};
use crate::metrics::{Ending, Metrics};
use crate::world::World;

/// All that the controllers know, and what they mean to do.
pub(super) struct Core {
    pub(super) options: Options,
    pub(super) metrics: Arc<Metrics>,
    pub(super) world: World,
    pub(super) lanes: Lanes,
    /// Work of which it is open what its last writes did: they failed, or the watch began anew meanwhile.
    /// What is there is read before anything is written again.
    pub(super) doubtful: HashSet<Work>,
    pub(super) slice_triggers: TriggerTimes,
    pub(super) endpoints_triggers: TriggerTimes,
    pub(super) told: Told<Topic>,
    pub(super) notices: Vec<Notice>,
    pub(super) seen: Seen,
    /// Jobs that follow from answers.
    jobs: Vec<Job>,
}

/// Which kinds have been told once as a whole.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) slices: bool,
    pub(super) mirrored: bool,
    pub(super) endpoints: bool,
}

impl Core {
    pub(super) fn new(options: Options, metrics: Arc<Metrics>) -> Self {
        Self {
            lanes: Lanes::new(&options, &metrics),
            options,
            metrics,
            world: World::default(),
            doubtful: HashSet::new(),
            slice_triggers: TriggerTimes::default(),
            endpoints_triggers: TriggerTimes::default(),
            told: Told::default(),
            notices: Vec::new(),
            seen: Seen::default(),
            jobs: Vec::new(),
        }
    }

    /// The jobs that are due. Each is answered with [`Core::finish`].
    pub(super) fn start(&mut self, now: Instant) -> Vec<Job> {
        self.lanes.wake(now);
        while let Some(work) = self.lanes.take(now) {
            self.begin(work, now);
        }
        std::mem::take(&mut self.jobs)
    }

    /// When [`Core::start`] has something to do, if nothing else happens.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.lanes.next_wake()
    }

    /// The Events that people should see.
    pub(super) fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn begin(&mut self, work: Work, now: Instant) {
        if !self.doubtful.contains(&work) {
            return self.sync(work, now);
        }
        if matches!(work, Work::Slices(_)) {
            self.metrics.update(|values| values.slices.ended(Ending::Stale));
        }
        let action = work.reading(&self.world);
        self.jobs.push(Job { work, action });
    }

    /// Does what is to be done about a key now that the caches are right.
    pub(super) fn sync(&mut self, work: Work, now: Instant) {
        // A panic stays with its key. What it may leave half done are memories of what was told, no caches.
        let action = catch_unwind(AssertUnwindSafe(|| self.action(&work)));
        match action {
            Ok(Some(action)) => self.jobs.push(Job { work, action }),
            Ok(None) => self.settle(&work, None, now),
            Err(_) => self.take_outcome(work, Outcome::Panicked, now),
        }
    }
}

impl Work {
    /// How to read what is there.
    fn reading(&self, world: &World) -> Action {
        match self {
            Self::Slices(_) | Self::Mirroring(_) => Action::ReadSlices,
            Self::Endpoints(key) => {
                let known = world.endpoints.get(key);
                Action::ReadEndpoints(known.map(|known| known.metadata.uid.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
