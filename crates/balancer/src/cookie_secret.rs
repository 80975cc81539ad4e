//! The Secret of which the cookies of sticky sessions are made: the same for the edges of all nodes, and known to nobody
//! else. What assigns addresses makes it once; the edges read it, again and again, so that it can be replaced.

use std::time::Duration;

use api::object::ObjectKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{APPLY_PATCH, Client, ClientError};
use edge::StickySecrets;
use http::Method;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use crate::serving::secret::{self, Secret};

/// Namespace and name of the Secret.
pub use api::edge_secret::{COOKIES_NAME as NAME, COOKIES_NAMESPACE as NAMESPACE};
/// What it holds: the secret that cookies are made of, and the one before it, whose cookies still lead to their backends.
const CURRENT: &str = "key";
const PREVIOUS: &str = "previous-key";
/// As many as the digest of which cookies are made.
const BYTES: usize = 32;
/// Pause between two tries to make it.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// The Secret.
pub fn key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, NAME)
}

/// The secrets that it holds; the error is for people.
pub fn secrets(secret: &Secret) -> Result<StickySecrets, String> {
    match secret.bytes(CURRENT).filter(|bytes| !bytes.is_empty()) {
        Some(current) => Ok(StickySecrets {
            current,
            previous: secret.bytes(PREVIOUS).filter(|bytes| !bytes.is_empty()),
        }),
        None => Err(format!("Secret {NAMESPACE}/{NAME} lacks {CURRENT:?}")),
    }
}

/// Sees to it that the Secret is there. What cannot be done now is tried again, but for what this process may not do: then
/// somebody else is to make it.
pub(crate) async fn make_once(client: Client) {
    loop {
        match make(&client).await {
            Ok(()) => return,
            Err(error) if error.code() == Some(403) => {
                tracing::warn!(
                    %error,
                    "the Secret {NAMESPACE}/{NAME} is not made: cookies of sticky sessions can be read by who tries all addresses"
                );
                return;
            }
            Err(error) => tracing::warn!(%error, "the Secret {NAMESPACE}/{NAME} is not made yet"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

async fn make(client: &Client) -> Result<(), ClientError> {
    match secret::read(client, &key()).await {
        Err(error) if error.is_not_found() => {}
        read => return read.map(drop),
    }
    let mut bytes = [0; BYTES];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("the kernel gives no random numbers");
        return Ok(());
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": NAMESPACE, "name": NAME},
        "data": {CURRENT: STANDARD.encode(bytes)},
    });
    // Applied, not created: the right to create can be had for this one name only in this way.
    let path = format!("{}?fieldManager=portolan-balancer", secret::path(&key()));
    client
        .request(Method::PATCH, &path, APPLY_PATCH, Some(&object))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests;
