//! Keys to look at, each by one worker at a time, with a growing pause after failures.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The pause after the first failure; it doubles with each further one.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause: a fault that lasts is looked at about once a minute.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// A queue of keys. A key that is being worked on and comes again waits until the work is done, so no
/// two workers ever write for one key. Its size is bounded by the number of keys that exist.
#[derive(Debug)]
pub struct Queue<K> {
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    busy: HashSet<K>,
    again: HashSet<K>,
    failures: HashMap<K, u32>,
    delayed: BinaryHeap<Reverse<(Instant, K)>>,
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
            failures: HashMap::new(),
            delayed: BinaryHeap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Asks for a key to be looked at.
    pub fn add(&mut self, key: K) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// The next key to look at; the caller answers with [`Queue::done`] or [`Queue::failed`].
    pub fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    /// The key was looked at and is as it should be.
    pub fn done(&mut self, key: &K) {
        self.failures.remove(key);
        self.release(key);
    }

    /// The key needs another look after a pause; returns the pause.
    pub fn failed(&mut self, key: &K, now: Instant) -> Duration {
        let count = self.failures.entry(key.clone()).or_insert(0);
        let pause = BACK_OFF_MIN
            .saturating_mul(1 << (*count).min(16))
            .min(BACK_OFF_MAX);
        *count = count.saturating_add(1);
        self.release(key);
        self.delayed.push(Reverse((now + pause, key.clone())));
        pause
    }

    /// Moves the keys whose pause is over to the ready ones.
    pub fn wake(&mut self, now: Instant) {
        while self.delayed.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, key))) = self.delayed.pop() {
                self.add(key);
            }
        }
    }

    /// When the next pause is over.
    pub fn next_wake(&self) -> Option<Instant> {
        self.delayed.peek().map(|Reverse((at, _))| *at)
    }

    /// Keys that wait to be looked at, pauses not counted.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    fn release(&mut self, key: &K) {
        self.busy.remove(key);
        if self.again.remove(key) {
            self.add(key.clone());
        }
    }
}

/// Waits until a pause is over; for ever where there is none.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
