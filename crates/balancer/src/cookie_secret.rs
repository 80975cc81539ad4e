//! Secret with the key of sticky-session cookies, common to the edges of all nodes.
//!
//! The assigner creates it once. Edges read it periodically, so that the key can be rotated.

use std::time::Duration;

use api::object::ObjectKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{APPLY_PATCH, Client, ClientError};
use edge::StickySecrets;
use http::Method;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use crate::serving::secret::{self, Secret, SecretError};

/// Name and namespace of the Secret.
pub use api::edge_secret::{COOKIES_NAME as NAME, COOKIES_NAMESPACE as NAMESPACE};
/// Entry with the key of new cookies.
const CURRENT: &str = "key";
/// Entry with the former key, whose cookies are still valid.
const PREVIOUS: &str = "previous-key";
/// Size of a key: that of the cookies' digest.
const KEY_BYTES: usize = 32;
/// Delay between attempts to create the Secret.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Returns the namespace and name of the Secret.
pub fn key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, NAME)
}

/// Returns the keys in the Secret.
///
/// # Errors
/// The Secret has no current key.
pub fn secrets(secret: &Secret) -> Result<StickySecrets, SecretError> {
    match secret.bytes(CURRENT).filter(|bytes| !bytes.is_empty()) {
        Some(current) => Ok(StickySecrets {
            current,
            previous: secret.bytes(PREVIOUS).filter(|bytes| !bytes.is_empty()),
        }),
        None => Err(SecretError::MissingEntry {
            secret: key(),
            entry: CURRENT,
        }),
    }
}

/// Creates the Secret if it does not exist. Failures are retried, except for a missing right: then an
/// administrator has to create it.
pub(crate) async fn ensure(client: Client) {
    loop {
        match create(&client).await {
            Ok(()) => return,
            Err(error) if error.code() == Some(403) => {
                tracing::warn!(
                    %error,
                    "Secret {NAMESPACE}/{NAME} not created; clients can derive the backend from a sticky-session cookie"
                );
                return;
            }
            Err(error) => tracing::warn!(%error, "Secret {NAMESPACE}/{NAME} not created; retrying"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

async fn create(client: &Client) -> Result<(), ClientError> {
    match secret::read(client, &key()).await {
        Err(error) if error.is_not_found() => {}
        read => return read.map(drop),
    }
    let mut bytes = [0; KEY_BYTES];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("no random numbers from the kernel");
        return Ok(());
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": NAMESPACE, "name": NAME},
        "data": {CURRENT: STANDARD.encode(bytes)},
    });
    // Server-side apply instead of create: only for patches can RBAC restrict the right to one name.
    let path = format!("{}?fieldManager=portolan-balancer", secret::path(&key()));
    client
        .request(Method::PATCH, &path, APPLY_PATCH, Some(&object))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests;
