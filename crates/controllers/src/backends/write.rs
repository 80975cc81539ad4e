//! Writing what was found of a slice's endpoints.

use api::object::{EndpointSlice, ObjectKey, Resource, Service};
use client::{ClientError, MERGE_PATCH};
use http::Method;
use serde_json::json;

use crate::events::{Finding, Notice, Regarding, post};
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::decode;

/// Writes the endpoints of `slice`, and says what has changed on its Service; what the server has then, nothing if the
/// slice is gone. Somebody else's write since it was read is a conflict.
pub(super) async fn carry_out(
    environment: &Environment,
    slice: &EndpointSlice,
    findings: Vec<Finding>,
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
    let answer = environment
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await;
    let written = match answer {
        Ok(answer) => decode(path, answer)?,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    for finding in &findings {
        tracing::info!(slice = %meta.key(), reason = finding.reason, "{}", finding.message);
    }
    let is_service = |owner: &&api::object::OwnerReference| owner.kind == Service::KIND;
    if let Some(owner) = meta.owner_references.iter().find(is_service) {
        let service = ObjectKey::new(&meta.namespace, &owner.name);
        let notice = Notice {
            component: Controller::BackendHealth.name(),
            regarding: Regarding::service(service, owner.uid.clone()),
            findings,
        };
        post(environment.clone(), notice).await;
    }
    Ok(Some(Box::new(written)))
}
