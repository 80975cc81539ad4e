//! The member list in the API: an annotation of a Lease.

use std::time::Duration;

use api::announcers::{ANNOTATION, NAME, NAMESPACE, Record, RecordError};
use api::object::{Lease, Resource};
use client::{Client, ClientError, JSON, Query};
use http::Method;
use serde_json::json;

use super::membership::{MembershipWrite, WriteResult};
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

/// Reads the member list of a Lease, with the resourceVersion for the next write.
///
/// # Errors
/// Returns an error if the annotation is missing or malformed.
pub(crate) fn read(lease: &Lease) -> Result<(String, Record), RecordError> {
    let text = lease.metadata.annotations.get(ANNOTATION);
    let record = Record::from_json(text.map_or("", String::as_str))?;
    Ok((lease.metadata.resource_version.clone(), record))
}

/// Result of a write, and the Lease that the server returned.
pub(crate) struct WriteOutcome {
    pub(crate) result: WriteResult,
    pub(crate) lease: Option<Lease>,
}

impl WriteOutcome {
    fn failed(lease: Option<Lease>) -> Self {
        Self {
            result: WriteResult::Failed,
            lease,
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
        },
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "conflict on the member list");
            let path = path();
            let read = tokio::time::timeout(WRITE_TIMEOUT, client.get::<Lease>(&path)).await;
            WriteOutcome::failed(read.ok().and_then(Result::ok))
        }
        Err(error) => {
            tracing::warn!(%error, "member list not written");
            WriteOutcome::failed(None)
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
            lease["metadata"]["resourceVersion"] = json!(version);
            client.request(Method::PUT, &path, JSON, Some(&lease)).await?
        }
    };
    serde_json::from_value(response).map_err(decode)
}

fn path() -> String {
    format!("{}/{NAME}", Lease::collection(Some(NAMESPACE)))
}
