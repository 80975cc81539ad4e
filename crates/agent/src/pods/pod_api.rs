//! Requests for one Pod of the API: its path, its status, its deletion.

use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, ClientError, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::object::Pod;

/// Delay after the first failed request; it doubles up to the maximum.
pub(crate) const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// Longest delay between requests.
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// Maximum number of attempts to delete a terminated Pod. After that, the next agent deletes it.
const DELETE_ATTEMPTS_MAX: usize = 20;

/// Returns the path of a Pod.
pub(crate) fn path(key: &ObjectKey) -> String {
    format!("{}/{}", Pod::collection(Some(&key.namespace)), key.name)
}

/// Pod after a write of its status.
pub(crate) struct PatchedPod {
    /// The resourceVersion, or 0 if the response has none.
    pub version: u64,
    /// Size of the Pod.
    pub bytes: usize,
}

/// Patches the status of the Pod at `path`.
///
/// # Errors
/// Errors of the request. A Pod with another UID is a conflict.
pub(crate) async fn patch_status(
    client: &Client,
    path: &str,
    uid: &str,
    status: &Value,
) -> Result<PatchedPod, ClientError> {
    // The UID makes the server reject the patch if another Pod has the name now.
    let mut body = json!({"metadata": {"uid": uid}, "status": status});
    for list in ["hostIPs", "podIPs"] {
        // By default a strategic merge patch would keep addresses that another client added to the list.
        if let Some(addresses) = body["status"].get_mut(list).and_then(Value::as_array_mut) {
            addresses.insert(0, json!({"$patch": "replace"}));
        }
    }
    let path = format!("{path}/status");
    let malformed = |source| ClientError::Decode {
        path: path.clone(),
        source,
    };
    let body = serde_json::to_vec(&body).map_err(malformed)?;
    let response = client
        .send(Method::PATCH, &path, STRATEGIC_PATCH, body.into())
        .await?;
    let patched: Value = serde_json::from_slice(&response).map_err(malformed)?;
    let version = patched["metadata"]["resourceVersion"].as_str();
    Ok(PatchedPod {
        version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
        bytes: response.len(),
    })
}

/// Deletes a Pod without a grace period. Succeeds if it does not exist.
///
/// # Errors
/// Errors of the request. A Pod with another UID is a conflict.
pub(crate) async fn delete(client: &Client, path: &str, uid: &str) -> Result<(), ClientError> {
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": uid},
    });
    match client
        .request(Method::DELETE, path, client::JSON, Some(&options))
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Deletes a terminated Pod, with retries.
pub(crate) async fn delete_with_retries(client: &Client, key: &ObjectKey, uid: &str) {
    let path = path(key);
    let mut delay = BACK_OFF_MIN;
    for _ in 0..DELETE_ATTEMPTS_MAX {
        match delete(client, &path, uid).await {
            Ok(()) => return,
            // Another Pod has the name now.
            Err(error) if error.is_conflict() => return,
            Err(error) => tracing::warn!(pod = %key, %error, "terminated Pod not deleted"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(BACK_OFF_MAX);
    }
}
