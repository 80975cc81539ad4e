//! Repeated examinations on a thread for blocking work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use explain::{Kind, Options, World, examine_cluster};

use super::Tree;
use super::state::SharedFeed;
use crate::view::findings::Findings;

/// Minimum time between the end of an examination and the next one.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Minimum pause as a multiple of the latest examination. Examinations thus use at most one fifth of a core.
const PAUSE_FACTOR: u32 = 4;

/// Examinations of the cluster.
#[derive(Debug, Default)]
pub(super) struct Examiner {
    is_running: AtomicBool,
    examinations: AtomicU64,
    latest: Mutex<LatestExamination>,
}

/// Latest examination.
#[derive(Debug, Default)]
struct LatestExamination {
    /// Objects, for traces.
    world: Option<World>,
    /// Time of the next examination, at the earliest.
    next: Option<Instant>,
}

impl Examiner {
    /// Starts an examination if objects changed, none runs, and the pause is over.
    pub(super) fn start_if_due(self: &Arc<Self>, shared: &Arc<SharedFeed>) {
        let is_paused = {
            let latest = self.latest.try_lock();
            latest.is_ok_and(|latest| latest.next.is_some_and(|next| Instant::now() < next))
        };
        if is_paused || self.is_running.load(Ordering::Acquire) {
            return;
        }
        let objects = shared.with(|state| {
            let is_due = std::mem::take(&mut state.is_unexamined);
            is_due.then(|| {
                let kinds = state.trees.iter();
                kinds
                    .map(|(kind, objects)| (*kind, objects.values().cloned().collect()))
                    .collect::<Vec<(Kind, Vec<Tree>)>>()
            })
        });
        let Some(objects) = objects.flatten() else {
            return;
        };
        self.is_running.store(true, Ordering::Release);
        let (examiner, shared) = (Arc::clone(self), Arc::clone(shared));
        tokio::task::spawn_blocking(move || {
            // The mark is removed even if a rule panics.
            let _mark = RunningMark(&examiner.is_running);
            examiner.examine(objects, &shared);
        });
    }

    fn examine(&self, objects: Vec<(Kind, Vec<Tree>)>, shared: &SharedFeed) {
        let started = Instant::now();
        let mut builder = World::builder();
        for (kind, objects) in objects {
            builder.mark_present(kind);
            for tree in objects {
                builder.add_shared(kind, tree);
            }
        }
        let world = builder.build();
        let findings = Findings::of(examine_cluster(&world, &Options::default()));
        self.examinations.fetch_add(1, Ordering::AcqRel);
        let duration = started.elapsed();
        let is_kept = shared.with(|state| state.model.set_findings(findings)).is_some();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.world = Some(world).filter(|_| is_kept);
        latest.next = Some(Instant::now() + PAUSE_MIN.max(duration * PAUSE_FACTOR));
        tracing::debug!(
            milliseconds = duration.as_millis(),
            "cluster examined for the chart"
        );
    }

    /// Calls a function with the objects of the latest examination. `None` before the first one.
    pub(super) fn with_world<R>(&self, call: impl FnOnce(&World) -> R) -> Option<R> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.world.as_ref().map(call)
    }

    /// Drops the objects.
    pub(super) fn clear(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = LatestExamination::default();
    }

    /// Examinations since the start of the process.
    pub(super) fn examinations(&self) -> u64 {
        self.examinations.load(Ordering::Acquire)
    }
}

/// Mark of a running examination.
struct RunningMark<'m>(&'m AtomicBool);

impl Drop for RunningMark<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
