//! Sources of volumes from the API: ConfigMaps, Secrets and ServiceAccount tokens.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::error::VolumeError;
use super::payload::{Objects, Tokens, referenced_sources};
use crate::containers::environment::{SourceKind, Variables};
use crate::object::{Pod, Projection, TokenSource};

/// Default lifetime of a token in seconds.
const TOKEN_SECONDS_DEFAULT: u64 = 3600;
/// Share of a token's lifetime after which it is renewed, in percent (upstream's rule).
const RENEWED_AFTER_PERCENT: i64 = 80;
/// Age at which a token is renewed at the latest (upstream's rule).
const RENEWED_AFTER_SECONDS: i64 = 24 * 3600;

/// Sources as they were read last.
#[derive(Default)]
pub(super) struct FetchedSources {
    /// ConfigMaps and Secrets by kind and name.
    pub objects: Objects,
    tokens: BTreeMap<String, Token>,
}

/// A token of a ServiceAccount, and the time of its last renewal.
struct Token {
    text: String,
    renewed_at: Timestamp,
}

impl FetchedSources {
    /// Returns the current tokens by audience.
    pub(super) fn tokens(&self) -> Tokens {
        let all = self.tokens.iter();
        all.map(|(audience, token)| (audience.clone(), token.text.clone()))
            .collect()
    }

    /// Reads the sources again, and renews tokens that are due.
    ///
    /// # Errors
    /// Errors of the API server. Missing objects are not an error here.
    pub(super) async fn update(
        &mut self,
        client: &Client,
        pod: &Pod,
        projections: &[Projection],
    ) -> Result<(), VolumeError> {
        for (kind, name) in projections.iter().flat_map(referenced_sources) {
            let key = (kind, name.to_owned());
            match read(client, &pod.metadata.namespace, kind, name).await {
                Ok(content) => drop(self.objects.insert(key, content)),
                Err(error) if error.is_not_found() => drop(self.objects.remove(&key)),
                Err(error) => return Err(error.into()),
            }
        }
        for source in projections
            .iter()
            .filter_map(|projection| projection.service_account_token.as_ref())
        {
            let present = self.tokens.get(&source.audience);
            if present.is_none_or(|token| token.renewed_at <= Timestamp::now()) {
                let token = request_token(client, pod, source).await?;
                self.tokens.insert(source.audience.clone(), token);
            }
        }
        Ok(())
    }
}

/// Reads the keys of a ConfigMap or Secret with their bytes.
///
/// # Errors
/// Errors of the API server.
pub async fn read(
    client: &Client,
    namespace: &str,
    kind: SourceKind,
    name: &str,
) -> Result<BTreeMap<String, Vec<u8>>, ClientError> {
    let object: Value = client.get(&path_of(namespace, kind, name)).await?;
    let binary = field(&object, "binaryData")
        .filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?)));
    Ok(data(&object, kind).chain(binary).collect())
}

/// Reads the keys of a ConfigMap or Secret for the variables of containers. As in the kubelet, `binaryData` is for files
/// only.
///
/// # Errors
/// Errors of the API server.
pub async fn read_variables(
    client: &Client,
    namespace: &str,
    kind: SourceKind,
    name: &str,
) -> Result<Variables, ClientError> {
    let object: Value = client.get(&path_of(namespace, kind, name)).await?;
    Ok(variables(&object, kind))
}

fn variables(object: &Value, kind: SourceKind) -> Variables {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    data(object, kind)
        .map(|(key, value)| (key, text(value)))
        .collect()
}

/// Returns the entries of `data`.
fn data(object: &Value, kind: SourceKind) -> impl Iterator<Item = (String, Vec<u8>)> {
    field(object, "data").filter_map(move |(key, value)| {
        let text = value.as_str()?;
        let content = match kind {
            SourceKind::ConfigMap => text.as_bytes().to_vec(),
            SourceKind::Secret => STANDARD.decode(text).ok()?,
        };
        Some((key.clone(), content))
    })
}

/// Returns the entries of a map.
fn field<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    object.get(name).and_then(Value::as_object).into_iter().flatten()
}

/// Returns the path of a ConfigMap or Secret. The name in a Pod is any text that its author chose, such as
/// `name?watch=true`.
pub(super) fn path_of(namespace: &str, kind: SourceKind, name: &str) -> String {
    let mut path = format!("/api/v1/namespaces/{namespace}/{}/", kind.plural());
    client::push_escaped(&mut path, name);
    path
}

/// Requests a token of the Pod's ServiceAccount that is bound to the Pod.
async fn request_token(client: &Client, pod: &Pod, source: &TokenSource) -> Result<Token, VolumeError> {
    let meta = &pod.metadata;
    let audiences: Vec<&String> = Some(&source.audience)
        .filter(|audience| !audience.is_empty())
        .into_iter()
        .collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": audiences,
            "expirationSeconds": source.expiration_seconds.unwrap_or(TOKEN_SECONDS_DEFAULT),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid},
        },
    });
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{}/token",
        meta.namespace, pod.spec.service_account_name
    );
    let response = client
        .request(Method::POST, &path, client::JSON, Some(&request))
        .await?;
    let incomplete = || VolumeError::Token {
        cause: "the API server's response has no token or no expiration time".to_owned(),
    };
    let status = &response["status"];
    let text = status["token"].as_str().ok_or_else(incomplete)?;
    let end = status["expirationTimestamp"]
        .as_str()
        .and_then(|time| time.parse().ok());
    let (now, end): (Timestamp, Timestamp) = (Timestamp::now(), end.ok_or_else(incomplete)?);
    let lifetime = end.duration_since(now).as_secs();
    let after = (lifetime * RENEWED_AFTER_PERCENT / 100).min(RENEWED_AFTER_SECONDS);
    Ok(Token {
        text: text.to_owned(),
        renewed_at: Timestamp::from_second(now.as_second() + after).unwrap_or(end),
    })
}

#[cfg(test)]
mod tests;
