//! Execution of writes of probe results to EndpointSlices.

use api::object::{EndpointSlice, ObjectKey, Resource, Service};
use client::ClientError;
use reconcile::events::{EventBatch, EventText, ObjectReference};
use serde_json::json;

use crate::api_requests::merge;
use crate::environment::Environment;
use crate::selection::Controller;

/// Writes the endpoints of `slice` and records `events` as Events on its Service. Returns the slice after the write,
/// `None` if it is deleted. A write by another client since the read is a conflict.
pub(super) async fn execute(
    environment: &Environment,
    slice: &EndpointSlice,
    events: Vec<EventText>,
) -> Result<Option<Box<EndpointSlice>>, ClientError> {
    let meta = &slice.metadata;
    let path = format!(
        "{}/{}",
        EndpointSlice::collection(Some(&meta.namespace)),
        meta.name
    );
    let patch = json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "endpoints": slice.endpoints,
    });
    let written = match merge(&environment.client, path, &patch).await {
        Ok(written) => written,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    for event in &events {
        tracing::info!(slice = %meta.key(), reason = event.reason, "{}", event.message);
    }
    let is_service = |owner: &&api::object::OwnerReference| owner.kind == Service::KIND;
    if let Some(owner) = meta.owner_references.iter().find(is_service) {
        let service = ObjectKey::new(&meta.namespace, &owner.name);
        let batch = EventBatch {
            component: Controller::BackendHealth.name(),
            regarding: ObjectReference::service(service, owner.uid.clone()),
            events,
        };
        environment.events.record_batch(batch).await;
    }
    Ok(Some(Box::new(written)))
}
