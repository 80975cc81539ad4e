//! The record of members in the API: an annotation of a Lease.

use std::time::Duration;

use api::announcers::{ANNOTATION, NAME, NAMESPACE, Record, RecordError};
use api::object::{Lease, Resource};
use client::{Client, ClientError, JSON, Query};
use http::Method;
use serde_json::json;

use crate::Time;
use crate::election::{Write, Written};

/// How long a write may take. The casting vote does not wait longer for a slow server.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to watch for news of the record.
pub(crate) fn query() -> Query {
    Query {
        namespace: Some(NAMESPACE.to_owned()),
        field_selector: format!("metadata.name={NAME}"),
        ..Query::default()
    }
}

/// Reads the record out of its Lease, with the version that a write is based on.
pub(crate) fn read(lease: &Lease) -> Result<(String, Record), RecordError> {
    let text = lease.metadata.annotations.get(ANNOTATION);
    let record = Record::from_json(text.map_or("", String::as_str))?;
    Ok((lease.metadata.resource_version.clone(), record))
}

/// What a write came to, and what the record is afterwards, as far as the server said.
pub(crate) struct Outcome {
    pub(crate) written: Written,
    pub(crate) lease: Option<Lease>,
}

/// Carries out a write that is sent at the moment `sent`.
pub(crate) async fn write(client: Client, write: Write, sent: Time) -> Outcome {
    let answer = match tokio::time::timeout(WRITE_TIMEOUT, send(&client, &write)).await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::warn!(timeout = ?WRITE_TIMEOUT, "the API server does not answer a change of the members");
            return failed(None);
        }
    };
    match answer {
        Ok(lease) => Outcome {
            written: Written::Accepted(sent),
            lease: Some(lease),
        },
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "another node was quicker");
            let path = path();
            let reading = tokio::time::timeout(WRITE_TIMEOUT, client.get::<Lease>(&path)).await;
            failed(reading.ok().and_then(Result::ok))
        }
        Err(error) => {
            tracing::warn!(%error, "the members could not be written");
            failed(None)
        }
    }
}

fn failed(lease: Option<Lease>) -> Outcome {
    Outcome {
        written: Written::Failed,
        lease,
    }
}

async fn send(client: &Client, write: &Write) -> Result<Lease, ClientError> {
    let path = path();
    let decode = |source| ClientError::Decode {
        path: path.clone(),
        source,
    };
    let annotation = write.record.to_json().map_err(decode)?;
    // For people: who has the casting vote.
    let holder = write
        .record
        .witness
        .as_ref()
        .map(|witness| witness.holder.as_str());
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "annotations": {ANNOTATION: annotation}},
        "spec": {"holderIdentity": holder},
    });
    let answer = match &write.version {
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
    serde_json::from_value(answer).map_err(decode)
}

fn path() -> String {
    format!("{}/{NAME}", Lease::collection(Some(NAMESPACE)))
}
