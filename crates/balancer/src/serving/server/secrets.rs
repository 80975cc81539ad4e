//! Periodic reads of the Secrets with certificates and with the key of sticky-session cookies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::object::ObjectKey;
use client::{Client, ClientError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::edge_instance::EdgeInstance;
use crate::cookie_secret;
use crate::serving::certificates;
use crate::serving::secret::{self, Secret, SecretError};
use crate::serving::state::{CookieSecret, EdgeState};

#[cfg(test)]
mod tests;

/// Maximum number of concurrent reads.
const READS_MAX: usize = 16;

/// Reads of Secrets in rounds.
pub(super) struct SecretReader {
    client: Client,
    pub(super) reads: JoinSet<(ObjectKey, Result<Secret, ClientError>)>,
    /// Secrets that are left in this round.
    pending: BTreeSet<ObjectKey>,
    in_flight: BTreeSet<ObjectKey>,
    pub(super) next_round: Instant,
}

impl SecretReader {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            reads: JoinSet::new(),
            pending: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            next_round: Instant::now(),
        }
    }

    /// Starts reads of referenced Secrets: unread ones at once, the others in rounds. Each has the namespace for which
    /// it is read.
    pub(super) fn start(&mut self, referenced: &BTreeMap<ObjectKey, Arc<str>>, state: &EdgeState) {
        if referenced.is_empty() {
            self.pending.clear();
            return;
        }
        let now = Instant::now();
        if self.next_round <= now {
            self.next_round = now + certificates::round_interval(referenced.len());
            self.pending.extend(referenced.keys().cloned());
        }
        let unread = referenced.keys().filter(|key| !is_read(key, state));
        self.pending.extend(unread.cloned());
        self.pending
            .retain(|key| referenced.contains_key(key) && !self.in_flight.contains(key));
        let pending = self.pending.iter();
        let due =
            order_of_reads(pending.filter_map(|key| Some((key, is_read(key, state), referenced.get(key)?))));
        for key in due {
            if self.reads.len() >= READS_MAX {
                return;
            }
            self.pending.remove(&key);
            self.in_flight.insert(key.clone());
            let client = self.client.clone();
            self.reads.spawn(async move {
                let result = secret::read(&client, &key).await;
                (key, result)
            });
        }
    }

    /// Applies the result of a read.
    pub(super) fn finish(
        &mut self,
        key: &ObjectKey,
        result: &Result<Secret, ClientError>,
        state: &mut EdgeState,
        edge: &mut EdgeInstance,
    ) {
        self.in_flight.remove(key);
        if *key == cookie_secret::key() {
            apply_cookie_secret(result, state, edge);
        }
        if state.certificates.store(key, result) {
            state.secret_changed(key);
        }
    }
}

/// Returns Secrets in the order of their reads. Unread ones come first, because clients wait for them. Namespaces take
/// turns, so the Secrets of one namespace do not delay those of others.
fn order_of_reads<'s>(pending: impl Iterator<Item = (&'s ObjectKey, bool, &'s Arc<str>)>) -> Vec<ObjectKey> {
    let mut turns: HashMap<(bool, &Arc<str>), usize> = HashMap::new();
    let mut due: Vec<(bool, usize, &ObjectKey)> = pending
        .map(|(key, is_read, namespace)| {
            let turn = turns.entry((is_read, namespace)).or_default();
            *turn += 1;
            (is_read, *turn, key)
        })
        .collect();
    due.sort();
    due.into_iter().map(|(_, _, key)| key.clone()).collect()
}

/// Returns true if the Secret was read, successfully or not.
fn is_read(key: &ObjectKey, state: &EdgeState) -> bool {
    let is_cookie_secret = state.has_read_cookie_secret() && *key == cookie_secret::key();
    is_cookie_secret || state.certificates.is_read(key)
}

/// Sets the key of sticky-session cookies. After a failure the former key stays in use.
fn apply_cookie_secret(result: &Result<Secret, ClientError>, state: &mut EdgeState, edge: &mut EdgeInstance) {
    let secrets = match result {
        Ok(secret) => cookie_secret::secrets(secret),
        Err(error) if error.is_not_found() => Err(SecretError::NotFound(cookie_secret::key())),
        Err(error) => Err(SecretError::Unreadable {
            secret: cookie_secret::key(),
            reason: error.to_string(),
        }),
    };
    match secrets {
        Ok(secrets) => {
            edge.set_sticky_secrets(secrets);
            state.set_cookie_secret(CookieSecret::Present);
        }
        Err(error) if !edge.has_sticky_secrets() => {
            state.set_cookie_secret(CookieSecret::Missing(error));
        }
        Err(error) => {
            tracing::debug!(%error, "key of cookies not read; the former key stays in use")
        }
    }
}
