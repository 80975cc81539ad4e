//! Bootstrap tokens, by which machines join: their Secrets are looked at when one comes, so one that is revoked is worth
//! nothing at once.

use std::sync::Arc;

use api::bootstrap_token::{GROUP, NAMESPACE, Stored, Token, USER_PREFIX};
use api::certificates::REPLACES_NODE;
use api::kind;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::Store;

use super::identity::{AUTHENTICATED, Identity};

/// Why a token is not accepted. For the log; a client is told nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// No Secret says that it is a token.
    #[error("no Secret has the token {0}: it was revoked, or removed after its time")]
    Unknown(String),
    /// The ID is right and the rest is not.
    #[error("the secret of the token {0} is another")]
    Wrong(String),
    /// It was good.
    #[error("the token {0} has expired")]
    Expired(String),
    /// It is for something else, or gives groups that no token gives.
    #[error("the token {0} is not for proving who somebody is")]
    Unusable(String),
}

/// Whose token this is; `None` if it does not have the form of one.
pub(crate) fn owner(store: &dyn Store, text: &str) -> Option<Result<Arc<Identity>, Rejection>> {
    let token: Token = text.parse().ok()?;
    Some(identify(store, &token, Timestamp::now()).map(Arc::new))
}

fn identify(store: &dyn Store, token: &Token, now: Timestamp) -> Result<Identity, Rejection> {
    let id = || token.id.clone();
    let secrets = kind::find("", "v1", "secrets").ok_or_else(|| Rejection::Unknown(id()))?;
    let entry = store
        .index()
        .get(&secrets.store_key(NAMESPACE, &token.secret_name()));
    let secret: Value = entry
        .and_then(|entry| serde_json::from_slice(&entry.value).ok())
        .ok_or_else(|| Rejection::Unknown(id()))?;
    let is_ending = !secret["metadata"]["deletionTimestamp"].is_null();
    let stored = Stored::of(&secret)
        .filter(|_| !is_ending)
        .ok_or_else(|| Rejection::Unknown(id()))?;
    if !are_equal(&stored.get("token-secret"), &token.secret) {
        return Err(Rejection::Wrong(id()));
    }
    if stored.is_expired(now) {
        return Err(Rejection::Expired(id()));
    }
    let groups = stored.groups().filter(|_| stored.is_for_authentication());
    let groups = groups.ok_or_else(|| Rejection::Unusable(id()))?;
    let replaced = stored.replaced_node();
    Ok(Identity {
        user: format!("{USER_PREFIX}{}", token.id),
        groups: [GROUP.to_owned()]
            .into_iter()
            .chain(groups)
            .chain([AUTHENTICATED.to_owned()])
            .collect(),
        extra: replaced
            .map(|(name, incarnation)| (REPLACES_NODE.to_owned(), vec![name, incarnation.to_string()]))
            .into_iter()
            .collect(),
        ..Identity::default()
    })
}

/// Compares digests, so that the time says nothing about where the texts differ.
fn are_equal(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

#[cfg(test)]
mod tests;
