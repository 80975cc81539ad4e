//! Reads and writes of one import.

use std::collections::BTreeMap;

use api::multicluster::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL};
use api::object::{EndpointSlice, ObjectKey, Resource, Service, ServiceExport, ServiceImport};
use client::{Client, ClientError, JSON, WallClock};
use http::Method;
use serde_json::Value;

use super::desired::DesiredImport;
use super::names::{self, MANAGED_BY};
use super::observed::ObservedImport;
use super::step::{self, Write};
use crate::api_requests::{self, decode, path_of, status_message};
use crate::endpoint_slice::MANAGED_BY_LABEL;

/// Maximum number of writes of one job. The events of these writes start the next job, so other imports get their turn.
const WRITES_MAX: usize = 500;
/// Status codes of an object that the API server rejects: invalid request, missing permission or exhausted quota, too
/// large, invalid object.
const REJECTIONS: [u16; 4] = [400, 403, 413, 422];
/// Status code of a Service for which the API server has no cluster IP left.
const INTERNAL_ERROR: u16 = 500;
/// Maximum number of characters of a response in a condition: a sentence or two. An invalid slice may have a fault in
/// each endpoint.
const RESPONSE_CHARACTERS_MAX: usize = 1_024;

/// Makes the objects of an import the desired ones. The objects are read first, so the writes do not depend on the
/// age of the caches. Rejected objects are left out; an error at the end causes a retry with back-off.
pub(super) async fn execute(
    client: &Client,
    clock: &WallClock,
    desired: DesiredImport,
) -> Result<(), ClientError> {
    let mut observed = read(client, &desired.key).await?;
    let mut rejected = None;
    let mut last: Option<Write> = None;
    let mut writes = 0;
    // Rejections do not count against the bound: each object is tried only once, and a rejected object must not delay
    // the others.
    while writes < WRITES_MAX {
        let Some(write) = step::next(&desired, &observed, clock.now()) else {
            break;
        };
        if last.as_ref() == Some(&write) {
            tracing::warn!(import = %desired.key, "write without effect; the job ends");
            break;
        }
        match execute_write(client, &desired.key, &write, &mut observed).await {
            Ok(()) => writes += 1,
            // The import states the reason, and its other objects do not wait.
            Err(error) if is_rejection(&write, &error) => {
                tracing::warn!(import = %desired.key, %error, "object of an import rejected; it is left out");
                record_rejection(&write, &error, &mut observed);
                rejected = Some(error);
            }
            Err(error) => return Err(error),
        }
        last = Some(write);
    }
    rejected.map_or(Ok(()), Err)
}

fn is_rejection(write: &Write, error: &ClientError) -> bool {
    let Some(code) = error.code() else {
        return false;
    };
    match write {
        Write::CreateSlice(_) | Write::ReplaceSlice(_) => REJECTIONS.contains(&code),
        Write::CreateService(_) | Write::PatchService(_) => {
            REJECTIONS.contains(&code) || code == INTERNAL_ERROR
        }
        _ => false,
    }
}

fn record_rejection(write: &Write, error: &ClientError, observed: &mut ObservedImport) {
    let response: String = status_message(error)
        .chars()
        .take(RESPONSE_CHARACTERS_MAX)
        .collect();
    match write {
        Write::CreateSlice(slice) | Write::ReplaceSlice(slice) => {
            let name = slice.metadata.name.clone();
            observed.rejected_slices.insert(name, response);
        }
        _ => observed.rejection = Some(response),
    }
}

async fn read(client: &Client, key: &ObjectKey) -> Result<ObservedImport, ClientError> {
    let derived = derived_key(key);
    let selector = format!(
        "{SERVICE_NAME_LABEL}={},{SOURCE_CLUSTER_LABEL},{MANAGED_BY_LABEL}={MANAGED_BY}",
        key.name
    );
    let slices = api_requests::list::<EndpointSlice>(client, &key.namespace, &selector).await?;
    Ok(ObservedImport {
        import: api_requests::read(client, key).await?,
        service: api_requests::read(client, &derived).await?,
        slices: slices.items,
        export: api_requests::read(client, key).await?,
        rejection: None,
        rejected_slices: BTreeMap::new(),
    })
}

fn derived_key(key: &ObjectKey) -> ObjectKey {
    ObjectKey::new(&key.namespace, &names::derived_service(&key.name))
}

/// Executes one write and applies its result to the observed state.
async fn execute_write(
    client: &Client,
    key: &ObjectKey,
    write: &Write,
    observed: &mut ObservedImport,
) -> Result<(), ClientError> {
    match write {
        Write::CreateService(service) => {
            let path = Service::collection(Some(&key.namespace));
            let created = client.request(Method::POST, &path, JSON, Some(service)).await?;
            observed.service = Some(decode(path, created)?);
        }
        Write::PatchService(change) => {
            observed.service = Some(patch(client, &derived_key(key), "", change).await?);
        }
        Write::DeleteService(meta) => {
            api_requests::delete::<Service>(client, meta).await?;
            observed.service = None;
        }
        Write::CreateImport(import) => observed.import = Some(api_requests::create(client, &**import).await?),
        Write::PatchImport(change) => observed.import = Some(patch(client, key, "", change).await?),
        Write::DeleteImport(meta) => {
            api_requests::delete::<ServiceImport>(client, meta).await?;
            observed.import = None;
        }
        Write::CreateSlice(slice) => {
            let created = match api_requests::create(client, slice).await {
                Err(error) if error.is_conflict() => replace_unlabelled(client, slice, error).await?,
                created => created?,
            };
            observed.slices.push(created);
        }
        Write::ReplaceSlice(slice) => {
            let slice = api_requests::replace(client, slice).await?;
            let is_other = |known: &EndpointSlice| known.metadata.name != slice.metadata.name;
            observed.slices.retain(is_other);
            observed.slices.push(slice);
        }
        Write::DeleteSlice(meta) => {
            api_requests::delete::<EndpointSlice>(client, meta).await?;
            observed.slices.retain(|known| known.metadata.name != meta.name);
        }
        Write::PatchImportStatus(change) => {
            observed.import = Some(patch(client, key, "/status", change).await?);
        }
        Write::PatchExportStatus(change) => {
            observed.export = Some(patch::<ServiceExport>(client, key, "/status", change).await?);
        }
    }
    Ok(())
}

/// Replaces a slice that exists without the labels by which mirrored slices are listed: another client has removed
/// them.
async fn replace_unlabelled(
    client: &Client,
    slice: &EndpointSlice,
    conflict: ClientError,
) -> Result<EndpointSlice, ClientError> {
    let Some(known) = api_requests::read::<EndpointSlice>(client, &slice.metadata.key()).await? else {
        return Err(conflict);
    };
    let mut slice = slice.clone();
    slice.metadata.uid = known.metadata.uid;
    slice.metadata.resource_version = known.metadata.resource_version;
    api_requests::replace(client, &slice).await
}

async fn patch<T: Resource>(
    client: &Client,
    key: &ObjectKey,
    subresource: &str,
    change: &Value,
) -> Result<T, ClientError> {
    let path = format!("{}{subresource}", path_of::<T>(key));
    api_requests::merge(client, path, change).await
}

#[cfg(test)]
mod tests;
