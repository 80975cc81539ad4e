//! A work queue of keys with deduplication and back-off, as client-go's `workqueue`.
//!
//! The queue has no clock and no tasks: callers pass the time, and [`Queue::wake`] makes the keys ready whose delay has
//! ended. A key that is added while it is in progress waits, so two workers never have one key. A failure doubles the
//! delay of its key, and a success resets it. Tenants take turns. A key that rewrites large objects is held for a time,
//! because its writes would replace the history of the API server.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::QueueMetrics;
use crate::pace::Pace;
use crate::ready_keys::ReadyKeys;

/// Longest delay of [`Queue::add_after`]: a year. Delays come from objects, such as deadlines of Jobs. The end of a
/// very long delay would overflow [`Instant`].
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The delay after failures: `first`, doubled with each further failure, up to `max`.
///
/// The number of retries has no limit. Upstream drops a key after 15 attempts; the fault may still be repaired later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Default for BackOff {
    /// Starts as upstream's Endpoints controller does (EPC-14); a lasting fault is retried once per minute.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            max: Duration::from_secs(60),
        }
    }
}

impl BackOff {
    /// Returns the delay after a failure that follows `failures` others.
    fn delay(self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(24)).min(self.max)
    }
}

/// A queue of keys.
///
/// A key that is added while a worker has it becomes ready when that worker is done. No two workers therefore write
/// for one key. Each key is in the queue at most once, so the number of keys that exist bounds its size.
#[derive(Debug)]
pub struct Queue<K> {
    back_off: BackOff,
    entries: HashMap<K, Entry>,
    ready: ReadyKeys<K>,
    delayed: BTreeSet<(Instant, K)>,
    in_progress: BTreeSet<(Instant, K)>,
    pace: Pace<K>,
    metrics: Arc<QueueMetrics>,
}

/// The state of a key. A key may be in progress and added, or delayed and added, at the same time.
#[derive(Debug, Default)]
struct Entry {
    added_at: Option<Instant>,
    delayed_until: Option<Instant>,
    started_at: Option<Instant>,
    /// Time at which a held key was added first. Keys that are held until the same time are taken in this order.
    held_since: Option<Instant>,
    failures: u32,
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self::new(BackOff::default())
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Creates an empty queue.
    pub fn new(back_off: BackOff) -> Self {
        Self {
            back_off,
            entries: HashMap::new(),
            ready: ReadyKeys::new(|_| ""),
            delayed: BTreeSet::new(),
            in_progress: BTreeSet::new(),
            pace: Pace::default(),
            metrics: Arc::default(),
        }
    }

    /// Creates an empty queue with the default back-off that records `metrics`.
    pub fn with_metrics(metrics: Arc<QueueMetrics>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    /// Lets the tenants of an empty queue take turns; `tenant_of` returns the tenant of a key, usually its namespace.
    /// Otherwise all keys belong to one tenant. Many ready keys of one tenant do not delay those of others.
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use reconcile::queue::Queue;
    ///
    /// fn namespace<'a>(key: &'a (&'static str, u32)) -> &'a str {
    ///     key.0
    /// }
    ///
    /// let mut queue = Queue::default().shared_by(namespace);
    /// let now = Instant::now();
    /// for key in [("a", 1), ("a", 2), ("b", 3)] {
    ///     queue.add(key, now);
    /// }
    /// let order: Vec<u32> = std::iter::from_fn(|| queue.take(now)).map(|((_, number), _)| number).collect();
    /// assert_eq!(order, [1, 3, 2]);
    /// ```
    #[must_use]
    pub fn shared_by(mut self, tenant_of: fn(&K) -> &str) -> Self {
        self.ready = ReadyKeys::new(tenant_of);
        self
    }

    /// Adds a key; returns false if it was added already.
    pub fn add(&mut self, key: K, now: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.added_at.is_some() {
            return false;
        }
        entry.added_at = Some(now);
        if entry.started_at.is_none() {
            self.ready.push(key);
        }
        self.metrics.count_add();
        self.metrics.set_depth(self.ready.len());
        true
    }

    /// Adds a key at time `at`, or keeps an earlier time that it has already.
    pub fn add_at(&mut self, key: K, at: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(until) = entry.delayed_until {
            if until <= at {
                return;
            }
            self.delayed.remove(&(until, key.clone()));
        }
        entry.delayed_until = Some(at);
        self.delayed.insert((at, key));
    }

    /// Adds a key after `delay`, or after a year if that is earlier, or keeps an earlier time that it has already.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// use reconcile::queue::Queue;
    ///
    /// let mut queue = Queue::default();
    /// let start = Instant::now();
    /// queue.add_after("default/backup", Duration::MAX, start);
    /// assert!(queue.next_wake().is_some_and(|wake| wake > start));
    /// ```
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) {
        self.add_at(key, now + delay.min(DELAY_MAX));
    }

    /// Takes the next ready key, with the time at which it was added. The worker ends with [`Queue::done`] or
    /// [`Queue::failed`].
    pub fn take(&mut self, now: Instant) -> Option<(K, Instant)> {
        self.take_of(|_| true, now)
    }

    /// Takes the next ready key of a tenant for which `may_run` returns true, as [`Queue::take`]. The keys of other
    /// tenants keep their turns.
    pub(crate) fn take_of(&mut self, may_run: impl Fn(&str) -> bool, now: Instant) -> Option<(K, Instant)> {
        let key = self.pop(may_run, now);
        self.metrics.set_depth(self.ready.len());
        let key = key?;
        let entry = self.entries.entry(key.clone()).or_default();
        let added_at = entry.added_at.take().unwrap_or(now);
        entry.started_at = Some(now);
        entry.held_since = None;
        self.in_progress.insert((now, key.clone()));
        self.metrics
            .work_started(now.saturating_duration_since(added_at), now);
        Some((key, added_at))
    }

    /// Takes the next ready key that is not held. The held ones before it are delayed.
    fn pop(&mut self, may_run: impl Fn(&str) -> bool, now: Instant) -> Option<K> {
        loop {
            let key = self.ready.pop(&may_run)?;
            let Some(until) = self.pace.held_until(&key, self.ready.tenant(&key), now) else {
                return Some(key);
            };
            if let Some(entry) = self.entries.get_mut(&key) {
                let added_at = entry.added_at.take();
                entry.held_since = entry.held_since.or(added_at);
            }
            self.add_at(key, until);
        }
    }

    /// Counts the bytes of large objects that the work on a key has rewritten. The key is held for a time that grows with
    /// them. If its tenant has rewritten many, all keys of the tenant are held.
    pub fn count_rewritten(&mut self, key: &K, bytes: usize, now: Instant) {
        self.pace.count(key, self.ready.tenant(key), bytes, now);
    }

    /// Ends the work on a key with success and resets its back-off; returns the duration of the work.
    pub fn done(&mut self, key: &K, now: Instant) -> Duration {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
        }
        self.release(key, now)
    }

    /// Ends the work on a key with a failure and adds it again after a delay; returns the delay.
    pub fn failed(&mut self, key: &K, now: Instant) -> Duration {
        let entry = self.entries.entry(key.clone()).or_default();
        let delay = self.back_off.delay(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        self.metrics.count_retry();
        self.add_at(key.clone(), now + delay);
        self.release(key, now);
        delay
    }

    /// Makes the keys ready whose delay has ended. Held keys become ready in the order in which they were added, because a
    /// tenant holds all of its keys until the same time.
    pub fn wake(&mut self, now: Instant) {
        let mut due = Vec::new();
        while self.delayed.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, key)) = self.delayed.pop_first() {
                let entry = self.entries.entry(key.clone()).or_default();
                entry.delayed_until = None;
                due.push((entry.held_since.unwrap_or(at), at, key));
            }
        }
        due.sort_by_key(|(since, _, _)| *since);
        for (_, at, key) in due {
            self.add(key, at);
        }
    }

    /// Returns the end of the shortest delay.
    pub fn next_wake(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Returns true if a key of a tenant for which `may_run` returns true is ready.
    pub(crate) fn is_any_ready(&self, may_run: impl Fn(&str) -> bool) -> bool {
        self.ready.has_any(may_run)
    }

    /// Returns the number of ready keys; delayed keys do not count.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of keys in progress.
    pub fn busy(&self) -> usize {
        self.in_progress.len()
    }

    /// Returns the keys in progress, longest first.
    pub fn in_progress(&self) -> impl Iterator<Item = &K> {
        self.in_progress.iter().map(|(_, key)| key)
    }

    /// Returns true if no key is ready, delayed or in progress.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.delayed.is_empty() && self.in_progress.is_empty()
    }

    fn release(&mut self, key: &K, now: Instant) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else {
            return Duration::ZERO;
        };
        let started_at = entry.started_at.take();
        if entry.added_at.is_some() {
            self.ready.push(key.clone());
        } else if entry.delayed_until.is_none() && entry.failures == 0 {
            self.entries.remove(key);
        }
        let Some(started_at) = started_at else {
            return Duration::ZERO;
        };
        self.in_progress.remove(&(started_at, key.clone()));
        self.metrics.work_finished(started_at, now);
        self.metrics.set_depth(self.ready.len());
        now.saturating_duration_since(started_at)
    }
}

#[cfg(test)]
mod tests;
