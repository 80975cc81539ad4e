//! Keys to look at, each by one worker at a time, with a growing pause after failures.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::Meter;

/// How long a key rests after failures: `first`, and twice as long after each further one, up to `max`.
/// A key is never given up (upstream does after 15 tries): what is wrong is wrong until it is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Default for BackOff {
    /// Starts as upstream's Endpoints controller does (EPC-14); a fault that lasts is looked at once a minute.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            max: Duration::from_secs(60),
        }
    }
}

impl BackOff {
    /// The pause after so many failures before this one.
    fn pause(self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(24)).min(self.max)
    }
}

/// A queue of keys. A key that is being worked on and comes again waits until the work is done, so no
/// two workers ever write for one key. Its size is bounded by the number of keys that exist: a key is in it
/// once at most, whatever happens to it.
#[derive(Debug)]
pub struct Queue<K> {
    back_off: BackOff,
    entries: HashMap<K, Entry>,
    ready: VecDeque<K>,
    resting: BTreeSet<(Instant, K)>,
    busy: BTreeSet<(Instant, K)>,
    meter: Arc<Meter>,
}

/// Where a key is. It may be busy and asked for, or resting and asked for, at the same time.
#[derive(Debug, Default)]
struct Entry {
    asked_since: Option<Instant>,
    resting_until: Option<Instant>,
    busy_since: Option<Instant>,
    failures: u32,
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self::new(BackOff::default())
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue.
    pub fn new(back_off: BackOff) -> Self {
        Self {
            back_off,
            entries: HashMap::new(),
            ready: VecDeque::new(),
            resting: BTreeSet::new(),
            busy: BTreeSet::new(),
            meter: Arc::default(),
        }
    }

    /// An empty queue whose work is counted.
    pub(crate) fn metered(meter: Arc<Meter>) -> Self {
        Self {
            meter,
            ..Self::default()
        }
    }

    /// Asks for a key to be looked at; whether it was not asked for already.
    pub fn add(&mut self, key: K, now: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.asked_since.is_some() {
            return false;
        }
        entry.asked_since = Some(now);
        if entry.busy_since.is_none() {
            self.ready.push_back(key);
        }
        self.meter.added();
        self.meter.waiting(self.ready.len());
        true
    }

    /// Asks for a key to be looked at later, or earlier than that if it is asked for.
    pub fn add_at(&mut self, key: K, at: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(until) = entry.resting_until {
            if until <= at {
                return;
            }
            self.resting.remove(&(until, key.clone()));
        }
        entry.resting_until = Some(at);
        self.resting.insert((at, key));
    }

    /// The next key to look at, and since when it was asked for; the caller answers with [`Queue::done`] or
    /// [`Queue::failed`].
    pub fn take(&mut self, now: Instant) -> Option<(K, Instant)> {
        let key = self.ready.pop_front()?;
        let entry = self.entries.entry(key.clone()).or_default();
        let since = entry.asked_since.take().unwrap_or(now);
        entry.busy_since = Some(now);
        self.busy.insert((now, key.clone()));
        self.meter.waiting(self.ready.len());
        self.meter.began(now.saturating_duration_since(since), now);
        Some((key, since))
    }

    /// The key was looked at and is as it should be; returns how long that took.
    pub fn done(&mut self, key: &K, now: Instant) -> Duration {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
        }
        self.release(key, now)
    }

    /// The key needs another look after a pause; returns the pause.
    pub fn failed(&mut self, key: &K, now: Instant) -> Duration {
        let entry = self.entries.entry(key.clone()).or_default();
        let pause = self.back_off.pause(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        self.meter.retried();
        self.add_at(key.clone(), now + pause);
        self.release(key, now);
        pause
    }

    /// Moves the keys whose pause is over to the ready ones.
    pub fn wake(&mut self, now: Instant) {
        while self.resting.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, key)) = self.resting.pop_first() {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.resting_until = None;
                }
                self.add(key, at);
            }
        }
    }

    /// When the next pause is over.
    pub fn next_wake(&self) -> Option<Instant> {
        self.resting.first().map(|(at, _)| *at)
    }

    /// Keys that wait to be looked at, pauses not counted.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Keys that are being looked at.
    pub fn busy(&self) -> usize {
        self.busy.len()
    }

    /// The keys that are being looked at, longest first.
    pub fn under_way(&self) -> impl Iterator<Item = &K> {
        self.busy.iter().map(|(_, key)| key)
    }

    /// Whether nothing is asked for, under way or resting.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.resting.is_empty() && self.busy.is_empty()
    }

    fn release(&mut self, key: &K, now: Instant) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else {
            return Duration::ZERO;
        };
        let began = entry.busy_since.take();
        if entry.asked_since.is_some() {
            self.ready.push_back(key.clone());
        } else if entry.resting_until.is_none() && entry.failures == 0 {
            self.entries.remove(key);
        }
        let Some(began) = began else {
            return Duration::ZERO;
        };
        self.busy.remove(&(began, key.clone()));
        self.meter.ended(began, now);
        self.meter.waiting(self.ready.len());
        now.saturating_duration_since(began)
    }
}

/// Waits until a pause is over; for ever where there is none.
pub async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
