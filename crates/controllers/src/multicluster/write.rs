//! Reads and writes of one import.

use api::multicluster::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL};
use api::object::{EndpointSlice, ObjectKey, Resource, Service, ServiceExport, ServiceImport};
use client::{Client, ClientError, JSON, MERGE_PATCH, WallClock};
use http::Method;
use serde_json::Value;

use super::desired::Desired;
use super::names::{self, MANAGED_BY};
use super::observed::Observed;
use super::step::{self, Write};
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::write::{self, decode, path_of, status_message};

/// Most writes of one job. The events of these writes start the next job, so other imports get their turn.
const WRITES_MAX: usize = 500;
/// Status code of an object that the API server rejects.
const UNPROCESSABLE: u16 = 422;

/// Makes the objects of an import the desired ones. The objects are read first, so the writes do not depend on the age of
/// the caches.
pub(super) async fn execute(client: &Client, clock: &WallClock, desired: Desired) -> Result<(), ClientError> {
    let mut observed = read(client, &desired.key).await?;
    let mut rejected = None;
    for _ in 0..WRITES_MAX {
        let Some(write) = step::next(&desired, &observed, clock.now()) else {
            break;
        };
        let is_of_service = matches!(write, Write::CreateService(_) | Write::PatchService(_));
        match one(client, &desired.key, write, &mut observed).await {
            Ok(()) => {}
            // The import states the reason, and its other objects do not wait.
            Err(error) if is_of_service && error.code() == Some(UNPROCESSABLE) => {
                observed.rejection = Some(status_message(&error));
                rejected = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    rejected.map_or(Ok(()), Err)
}

async fn read(client: &Client, key: &ObjectKey) -> Result<Observed, ClientError> {
    let derived = derived_key(key);
    let selector = format!(
        "{SERVICE_NAME_LABEL}={},{SOURCE_CLUSTER_LABEL},{MANAGED_BY_LABEL}={MANAGED_BY}",
        key.name
    );
    let slices = write::list::<EndpointSlice>(client, &key.namespace, &selector).await?;
    Ok(Observed {
        import: write::read(client, key).await?,
        service: write::read(client, &derived).await?,
        slices: slices.items,
        export: write::read(client, key).await?,
        rejection: None,
    })
}

fn derived_key(key: &ObjectKey) -> ObjectKey {
    ObjectKey::new(&key.namespace, &names::derived_service(&key.name))
}

/// Executes one write and applies its result to the observed state.
async fn one(
    client: &Client,
    key: &ObjectKey,
    write: Write,
    observed: &mut Observed,
) -> Result<(), ClientError> {
    match write {
        Write::CreateService(service) => {
            let path = Service::collection(Some(&key.namespace));
            let created = client.request(Method::POST, &path, JSON, Some(&service)).await?;
            observed.service = Some(decode(path, created)?);
        }
        Write::PatchService(change) => {
            observed.service = Some(patch(client, &derived_key(key), "", &change).await?);
        }
        Write::DeleteService(meta) => {
            write::delete::<Service>(client, &meta).await?;
            observed.service = None;
        }
        Write::CreateImport(import) => observed.import = Some(write::create(client, &*import).await?),
        Write::PatchImport(change) => observed.import = Some(patch(client, key, "", &change).await?),
        Write::DeleteImport(meta) => {
            write::delete::<ServiceImport>(client, &meta).await?;
            observed.import = None;
        }
        Write::CreateSlice(slice) => observed.slices.push(write::create(client, &slice).await?),
        Write::ReplaceSlice(slice) => {
            let slice = write::replace(client, &slice).await?;
            let is_other = |known: &EndpointSlice| known.metadata.name != slice.metadata.name;
            observed.slices.retain(is_other);
            observed.slices.push(slice);
        }
        Write::DeleteSlice(meta) => {
            write::delete::<EndpointSlice>(client, &meta).await?;
            observed.slices.retain(|known| known.metadata.name != meta.name);
        }
        Write::PatchImportStatus(change) => {
            observed.import = Some(patch(client, key, "/status", &change).await?);
        }
        Write::PatchExportStatus(change) => {
            observed.export = Some(patch::<ServiceExport>(client, key, "/status", &change).await?);
        }
    }
    Ok(())
}

async fn patch<T: Resource>(
    client: &Client,
    key: &ObjectKey,
    subresource: &str,
    change: &Value,
) -> Result<T, ClientError> {
    let path = format!("{}{subresource}", path_of::<T>(key));
    let response = client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(change))
        .await?;
    decode(path, response)
}
