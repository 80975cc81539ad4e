//! Secrets, read by their names.

use api::object::{Labels, ObjectKey, ObjectMeta};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError};
use serde::Deserialize;

/// The parts of a Secret that count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    data: Option<Labels>,
}

impl Secret {
    /// What it holds under a name; `None` if there is nothing, or what is there is no base64.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let text = self.data.as_ref()?.get(name)?;
        STANDARD.decode(text).ok()
    }
}

/// Reads a Secret.
///
/// # Errors
/// The server does not give it.
pub async fn read(client: &Client, key: &ObjectKey) -> Result<Secret, ClientError> {
    client.get(&path(key)).await
}

/// Where a Secret is in the API.
pub fn path(key: &ObjectKey) -> String {
    let mut path = "/api/v1/namespaces/".to_owned();
    client::push_escaped(&mut path, &key.namespace);
    path.push_str("/secrets/");
    client::push_escaped(&mut path, &key.name);
    path
}
