//! Carrying out writes on slices.

use api::object::{EndpointSlice, Resource};
use client::{Client, ClientError, JSON};
use http::Method;
use serde_json::Value;

use super::SliceWrite;

/// What became of a round of writes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Slices as the server has them now.
    pub(crate) written: Vec<EndpointSlice>,
    /// Names of slices that are gone.
    pub(crate) deleted: Vec<String>,
    /// The first failure, which ended the round.
    pub(crate) error: Option<ClientError>,
}

/// Makes the writes in their order and stops at the first failure.
pub(crate) async fn carry_out(client: &Client, namespace: &str, writes: Vec<SliceWrite>) -> Report {
    let mut report = Report::default();
    for write in writes {
        if let Err(error) = one(client, namespace, write, &mut report).await {
            report.error = Some(error);
            break;
        }
    }
    report
}

async fn one(
    client: &Client,
    namespace: &str,
    write: SliceWrite,
    report: &mut Report,
) -> Result<(), ClientError> {
    let collection = EndpointSlice::collection(Some(namespace));
    let answer = match write {
        SliceWrite::Create(slice) => client.create(Some(namespace), &slice).await?,
        SliceWrite::Update(slice) => {
            let path = format!("{collection}/{}", slice.metadata.name);
            let body = with_kind(&path, &slice)?;
            client.request(Method::PUT, &path, JSON, Some(&body)).await?
        }
        SliceWrite::Delete(name) => {
            let path = format!("{collection}/{name}");
            match client.request(Method::DELETE, &path, JSON, None).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
            report.deleted.push(name);
            return Ok(());
        }
    };
    let slice = serde_json::from_value(answer).map_err(|source| ClientError::Decode {
        path: collection,
        source,
    })?;
    report.written.push(slice);
    Ok(())
}

fn with_kind(path: &str, slice: &EndpointSlice) -> Result<Value, ClientError> {
    let mut body = serde_json::to_value(slice).map_err(|source| ClientError::Decode {
        path: path.to_owned(),
        source,
    })?;
    body["apiVersion"] = format!("{}/{}", EndpointSlice::GROUP, EndpointSlice::VERSION).into();
    body["kind"] = EndpointSlice::KIND.into();
    Ok(body)
}
