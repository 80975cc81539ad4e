//! Tokens and the time in; removals out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::bootstrap_token::Stored;
use api::object::ObjectMeta;
use client::{Event, WallClock};
use jiff::Timestamp;

use super::Secret;
use crate::keeper::{Keeper, Look};
use crate::queue::Queue;

/// A clock that jumps must not keep an expired token for longer than this.
const PERIOD_MAX: Duration = Duration::from_secs(600);

/// The state of the controller.
pub(super) struct Tokens {
    clock: WallClock,
    is_synced: bool,
    secrets: HashMap<String, Secret>,
}

impl Tokens {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            is_synced: false,
            secrets: HashMap::new(),
        }
    }
}

impl Keeper for Tokens {
    type Change = Event<Secret>;
    type Key = String;
    type Job = ObjectMeta;
    type Answer = ();
    /// Tokens are few.
    const JOBS_MAX: usize = 1;

    fn take(&mut self, change: Event<Secret>, queue: &mut Queue<String>, now: Instant) {
        match change {
            Event::Applied(secret) => {
                queue.add(secret.metadata.name.clone(), now);
                self.secrets.insert(secret.metadata.name.clone(), secret);
            }
            Event::Deleted(key) => {
                self.secrets.remove(&*key.name);
            }
            Event::Synced => self.is_synced = true,
            // Its content is not for the log.
            Event::Malformed { key, .. } => {
                tracing::error!(kind = "Secret", %key, "the object cannot be read and is skipped");
            }
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn look(&mut self, name: &String, _: Instant) -> Look<ObjectMeta> {
        match self.secrets.get(name) {
            None => Look::Fine,
            Some(secret) => look(secret, self.clock.now()),
        }
    }

    fn answered(&mut self, _: &String, (): (), _: &mut Queue<String>, _: Instant) {}
}

/// What is to be done about a token at a time.
pub(super) fn look(secret: &Secret, now: Timestamp) -> Look<ObjectMeta> {
    // A view that was read from JSON is JSON.
    let value = serde_json::to_value(secret).unwrap_or_default();
    let Some(token) = Stored::of(&value) else {
        return Look::Fine;
    };
    if token.is_expired(now) {
        return Look::Do(secret.metadata.clone());
    }
    match token.seconds_left(now) {
        Some(seconds) => {
            let left = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1));
            Look::Again(left.min(PERIOD_MAX))
        }
        None => Look::Fine,
    }
}
