//! The member list in the API: an annotation of a Lease.

use std::time::Duration;

use api::announcers::{ANNOTATION, NAME, NAMESPACE, Record, RecordError};
use api::object::{Lease, Resource};
use client::{Client, ClientError, JSON, Query};
use http::Method;
use serde_json::json;

use super::membership::{MembershipWrite, VERSION_SEPARATOR, WriteResult};
use crate::Time;

/// Timeout of a write. The tie-breaker vote cannot wait longer for a slow server.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the query to watch the Lease.
pub(crate) fn query() -> Query {
    Query {
        namespace: Some(NAMESPACE.to_owned()),
        field_selector: format!("metadata.name={NAME}"),
        ..Query::default()
    }
}

/// Reads the member list of a Lease, with the version for the next write: UID and resourceVersion. Without the UID, a
/// write after a deletion would create the Lease, based on a list that is not the last one.
///
/// # Errors
/// Returns an error if the annotation is missing or malformed.
pub(crate) fn read(lease: &Lease) -> Result<(String, Record), RecordError> {
    let text = lease.metadata.annotations.get(ANNOTATION);
    let record = Record::from_json(text.map_or("", String::as_str))?;
    let metadata = &lease.metadata;
    let version = format!("{}{VERSION_SEPARATOR}{}", metadata.uid, metadata.resource_version);
    Ok((version, record))
}

/// Result of a write, and the Lease that the server returned.
pub(crate) struct WriteOutcome {
    pub(crate) result: WriteResult,
    pub(crate) lease: Option<Lease>,
    /// True if the Lease does not exist.
    pub(crate) is_missing: bool,
}

impl WriteOutcome {
    fn failed(lease: Option<Lease>) -> Self {
        Self {
            result: WriteResult::Failed,
            lease,
            is_missing: false,
        }
    }

    /// Returns the outcome of a write or a read that failed with this error.
    fn of_error(error: &ClientError) -> Self {
        Self {
            is_missing: error.is_not_found(),
            ..Self::failed(None)
        }
    }
}

/// Executes a write that is sent at the time `sent`. After a conflict it reads the Lease again.
pub(crate) async fn write(client: Client, write: MembershipWrite, sent: Time) -> WriteOutcome {
    let Ok(response) = tokio::time::timeout(WRITE_TIMEOUT, send(&client, &write)).await else {
        tracing::warn!(timeout = ?WRITE_TIMEOUT, "write of the member list timed out");
        return WriteOutcome::failed(None);
    };
    match response {
        Ok(lease) => WriteOutcome {
            result: WriteResult::Accepted(sent),
            lease: Some(lease),
            is_missing: false,
        },
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "conflict on the member list");
            let path = path();
            let read = tokio::time::timeout(WRITE_TIMEOUT, client.get::<Lease>(&path)).await;
            match read {
                Ok(Ok(lease)) => WriteOutcome::failed(Some(lease)),
                Ok(Err(error)) => WriteOutcome::of_error(&error),
                Err(_) => WriteOutcome::failed(None),
            }
        }
        Err(error) => {
            tracing::warn!(%error, "member list not written");
            WriteOutcome::of_error(&error)
        }
    }
}

async fn send(client: &Client, write: &MembershipWrite) -> Result<Lease, ClientError> {
    let path = path();
    let decode = |source| ClientError::Decode {
        path: path.clone(),
        source,
    };
    let annotation = write.record.to_json().map_err(decode)?;
    // For operators: the holder of the tie-breaker vote.
    let holder = write.record.tie_breaker.as_ref().map(|vote| vote.holder.as_str());
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "annotations": {ANNOTATION: annotation}},
        "spec": {"holderIdentity": holder},
    });
    let response = match &write.version {
        None => {
            let collection = Lease::collection(Some(NAMESPACE));
            client
                .request(Method::POST, &collection, JSON, Some(&lease))
                .await?
        }
        Some(version) => {
            let (uid, resource_version) = version
                .split_once(VERSION_SEPARATOR)
                .unwrap_or(("", version.as_str()));
            lease["metadata"]["uid"] = json!(uid);
            lease["metadata"]["resourceVersion"] = json!(resource_version);
            client.request(Method::PUT, &path, JSON, Some(&lease)).await?
        }
    };
    serde_json::from_value(response).map_err(decode)
}

fn path() -> String {
    format!("{}/{NAME}", Lease::collection(Some(NAMESPACE)))
}
