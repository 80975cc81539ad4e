//! The decisions of a controller, apart from its I/O.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::queue::Queue;

/// A state machine without clock or I/O: changes, results and the time in; keys and jobs out.
///
/// The driver ([`crate::run`]) calls [`Reconciler::reconcile`] for one key at a time, and only after
/// [`Reconciler::is_synced`] returns true.
pub trait Reconciler {
    /// A change that a watch reports.
    type Change;
    /// The subject of a reconciliation.
    type Key: Clone + Debug + Eq + Hash + Ord;
    /// A unit of I/O for a key: usually one write.
    type Job: Debug;
    /// The result of a job that succeeded.
    type Output;
    /// Upper bound of concurrent jobs.
    const CONCURRENT_JOBS_MAX: usize;

    /// Applies a change to the caches and adds the affected keys to the queue.
    fn apply_change(&mut self, change: Self::Change, queue: &mut Queue<Self::Key>, now: Instant);
    /// Returns true if the caches have received their initial lists.
    fn is_synced(&self) -> bool;
    /// Returns the time of the next [`Reconciler::tick`], for controllers that act without a change.
    fn next_tick(&self) -> Option<Instant> {
        None
    }
    /// Adds the keys to the queue that are due at `now`.
    fn tick(&mut self, _queue: &mut Queue<Self::Key>, _now: Instant) {}
    /// Compares the desired and the observed state of a key.
    fn reconcile(&mut self, key: &Self::Key, now: Instant) -> Action<Self::Job>;
    /// Notes that the job of a key failed, so that the effect of its writes is unknown. The queue retries the key.
    fn on_failure(&mut self, _key: &Self::Key) {}
    /// Applies the result of a job to the caches.
    fn on_success(
        &mut self,
        key: &Self::Key,
        output: Self::Output,
        queue: &mut Queue<Self::Key>,
        now: Instant,
    );
}

/// The result of a reconciliation.
#[derive(Debug)]
pub enum Action<J> {
    /// Observed and desired state agree.
    Done,
    /// Nothing to do now; reconcile the key again after this delay.
    RequeueAfter(Duration),
    /// Run this job.
    Run(J),
}
