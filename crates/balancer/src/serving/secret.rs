//! Reads of Secrets by name, and the reasons why they fail.

use api::object::{Labels, ObjectKey, ObjectMeta};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError};
use serde::Deserialize;

use super::certificates::ALLOWED_NAMESPACES;

/// Secret that cannot be used. The message is part of an Event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The Secret does not exist.
    #[error("expected Secret {0}, found none; create it")]
    NotFound(ObjectKey),
    /// The Secret cannot be read; a retry may succeed.
    #[error("Secret {secret} cannot be read: {reason}")]
    Unreadable {
        /// Namespace and name of the Secret.
        secret: ObjectKey,
        /// Message of the API client.
        reason: String,
    },
    /// The Secret has another type.
    #[error(
        "Secret {secret}: expected type {expected}, found {found:?}; create the Secret again with this type"
    )]
    WrongType {
        /// Namespace and name of the Secret.
        secret: ObjectKey,
        /// Type of the Secret.
        found: String,
        /// The expected type.
        expected: &'static str,
    },
    /// The Secret has no such entry, or the entry is empty or not base64.
    #[error("Secret {secret}: expected the entry {entry:?} in base64, found none; add it")]
    MissingEntry {
        /// Namespace and name of the Secret.
        secret: ObjectKey,
        /// Name of the entry.
        entry: &'static str,
    },
    /// The Secret does not allow the namespace of the Service. The message does not disclose if the Secret exists.
    #[error(
        "Secret {secret} cannot be used from namespace {namespace}: it must exist, and its annotation {ALLOWED_NAMESPACES} \
         must name the namespace"
    )]
    NotAllowed {
        /// Namespace and name of the Secret.
        secret: ObjectKey,
        /// Namespace of the Service.
        namespace: String,
    },
}

/// Metadata, type and data of a Secret.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Type, such as `kubernetes.io/tls`.
    #[serde(rename = "type")]
    pub kind: String,
    data: Option<Labels>,
}

impl Secret {
    /// Returns the decoded entry; `None` if it is absent or not base64.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let text = self.data.as_ref()?.get(name)?;
        STANDARD.decode(text).ok()
    }
}

/// Reads a Secret.
///
/// # Errors
/// The request failed.
pub async fn read(client: &Client, key: &ObjectKey) -> Result<Secret, ClientError> {
    client.get(&path(key)).await
}

/// Returns the path of a Secret in the API.
pub fn path(key: &ObjectKey) -> String {
    let mut path = "/api/v1/namespaces/".to_owned();
    client::push_escaped(&mut path, &key.namespace);
    path.push_str("/secrets/");
    client::push_escaped(&mut path, &key.name);
    path
}
