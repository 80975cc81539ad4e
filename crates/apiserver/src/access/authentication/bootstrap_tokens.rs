//! Authentication by bootstrap tokens, which nodes use to join. The Secret is read for each request, so that a
//! revoked token is refused at once.

use std::sync::Arc;

use api::bootstrap_token::{GROUP, NAMESPACE, StoredToken, Token, USER_PREFIX};
use api::certificates::REPLACES_NODE;
use api::kind;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::Store;

use super::identity::{AUTHENTICATED, Identity};

/// Reason for the rejection of a bootstrap token. The log contains the reason; the client receives 401 without a
/// reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// No Secret exists for the token ID.
    #[error(
        "bootstrap token {0} does not exist: it was revoked, or deleted after its expiration; create a token"
    )]
    Unknown(String),
    /// The token ID exists, and the secret part differs.
    #[error("wrong secret for bootstrap token {0}")]
    Wrong(String),
    /// The expiration of the token has passed.
    #[error("bootstrap token {0} has expired; create a token")]
    Expired(String),
    /// The token has no usage `authentication`, or requests groups that no bootstrap token may have.
    #[error("bootstrap token {0} is not valid for authentication")]
    Unusable(String),
}

/// Authenticates a bootstrap token; `None` if the text does not have the form of one.
pub(crate) fn authenticate(store: &dyn Store, text: &str) -> Option<Result<Arc<Identity>, Rejection>> {
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
    let is_terminating = !secret["metadata"]["deletionTimestamp"].is_null();
    let stored = StoredToken::of(&secret)
        .filter(|_| !is_terminating)
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

/// Compares SHA-256 digests, so that the duration does not depend on the first differing byte.
fn are_equal(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

#[cfg(test)]
mod tests;
