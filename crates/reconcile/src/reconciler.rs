//! The decisions of a controller, apart from its I/O.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::queue::Queue;

/// A state machine without clock or I/O. Inputs are changes, results and the time; outputs are keys and jobs.
///
/// The driver ([`crate::run`]) calls [`Reconciler::reconcile`] for one key at a time, and only after
/// [`Reconciler::is_synced`] returns true.
///
/// # Example
///
/// A reconciler that writes each key until the observed value is the desired one:
///
/// ```
/// use std::collections::BTreeMap;
/// use std::time::{Duration, Instant};
///
/// use reconcile::queue::{BackOff, Queue};
/// use reconcile::{Action, Reconciler};
///
/// #[derive(Default)]
/// struct Replicas {
///     desired: BTreeMap<String, u32>,
///     observed: BTreeMap<String, u32>,
/// }
///
/// impl Reconciler for Replicas {
///     type Change = (String, u32);
///     type Key = String;
///     type Job = u32;
///     type Output = u32;
///     const CONCURRENT_JOBS_MAX: usize = 5;
///
///     fn apply_change(&mut self, (key, replicas): (String, u32), queue: &mut Queue<String>, now: Instant) {
///         self.desired.insert(key.clone(), replicas);
///         queue.add(key, now);
///     }
///
///     fn is_synced(&self) -> bool {
///         true
///     }
///
///     fn reconcile(&mut self, key: &String, _now: Instant) -> Action<u32> {
///         match self.desired.get(key) {
///             Some(replicas) if self.observed.get(key) != Some(replicas) => Action::Run(*replicas),
///             _ => Action::Done,
///         }
///     }
///
///     fn on_success(&mut self, key: &String, replicas: u32, _queue: &mut Queue<String>, _now: Instant) {
///         self.observed.insert(key.clone(), replicas);
///     }
/// }
///
/// let now = Instant::now();
/// let back_off = BackOff { first: Duration::from_millis(5), max: Duration::from_secs(60) };
/// let (mut replicas, mut queue) = (Replicas::default(), Queue::new(back_off));
/// replicas.apply_change(("default/web".to_owned(), 3), &mut queue, now);
///
/// let (key, _) = queue.take(now).expect("a key is ready");
/// assert!(matches!(replicas.reconcile(&key, now), Action::Run(3)));
/// replicas.on_success(&key, 3, &mut queue, now);
/// queue.done(&key, now);
/// assert!(matches!(replicas.reconcile(&key, now), Action::Done));
/// ```
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
    /// Upper bound of concurrent jobs of one tenant. A smaller one leaves jobs to other tenants where a tenant can make
    /// its jobs slow.
    const TENANT_JOBS_MAX: usize = Self::CONCURRENT_JOBS_MAX;

    /// Returns the tenant of a key, usually its namespace. Many keys of one tenant do not delay those of others.
    fn tenant(_key: &Self::Key) -> &str {
        ""
    }
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
