//! State machine of the token cleaner. Inputs are Secrets of bootstrap tokens and time; outputs are deletions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::bootstrap_token::StoredToken;
use api::object::ObjectMeta;
use client::{Event, WallClock};
use jiff::Timestamp;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::Secret;

/// Longest interval between checks of a token, so that a clock jump delays its deletion by no more.
const PERIOD_MAX: Duration = Duration::from_secs(600);

/// Deletes expired bootstrap tokens.
pub(super) struct TokenCleaner {
    clock: WallClock,
    is_synced: bool,
    secrets: HashMap<String, Secret>,
}

impl TokenCleaner {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            is_synced: false,
            secrets: HashMap::new(),
        }
    }
}

impl Reconciler for TokenCleaner {
    type Change = Event<Secret>;
    type Key = String;
    type Job = ObjectMeta;
    type Output = ();
    /// Maximum number of concurrent jobs: a cluster has few tokens.
    const CONCURRENT_JOBS_MAX: usize = 1;

    fn apply_change(&mut self, change: Event<Secret>, queue: &mut Queue<String>, now: Instant) {
        match change {
            Event::Applied(secret) => {
                queue.add(secret.metadata.name.clone(), now);
                self.secrets.insert(secret.metadata.name.clone(), secret);
            }
            Event::Deleted(key) => {
                self.secrets.remove(&*key.name);
            }
            Event::Synced => self.is_synced = true,
            // The content is secret, so the decoding error is not logged.
            Event::Malformed { key, .. } => {
                tracing::error!(kind = "Secret", %key, "malformed object skipped");
            }
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn reconcile(&mut self, name: &String, _: Instant) -> Action<ObjectMeta> {
        match self.secrets.get(name) {
            None => Action::Done,
            Some(secret) => action_for(secret, self.clock.now()),
        }
    }

    fn on_success(&mut self, _: &String, (): (), _: &mut Queue<String>, _: Instant) {}
}

/// Returns the action for a token at `now`.
pub(super) fn action_for(secret: &Secret, now: Timestamp) -> Action<ObjectMeta> {
    // Serialization cannot fail: the Secret was deserialized from JSON.
    let value = serde_json::to_value(secret).unwrap_or_default();
    let Some(token) = StoredToken::of(&value) else {
        return Action::Done;
    };
    if token.is_expired(now) {
        return Action::Run(secret.metadata.clone());
    }
    match token.seconds_left(now) {
        Some(seconds) => {
            let left = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1));
            Action::RequeueAfter(left.min(PERIOD_MAX))
        }
        None => Action::Done,
    }
}
