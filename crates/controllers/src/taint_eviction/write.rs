//! Execution of evictions: conditions, deletions and Events of Pods.

use api::object::ObjectMeta;
use client::{ClientError, JSON, STRATEGIC_PATCH};
use http::Method;
use reconcile::events::EventText;
use serde_json::json;

use crate::api_requests::path_of;
use crate::environment::Environment;
use crate::scheduler::SchedulePod;
use crate::selection::Controller;
use crate::workload::timestamp;

/// Marks a Pod with the condition DisruptionTarget, deletes it and records an Event.
pub(super) async fn execute(environment: &Environment, meta: ObjectMeta) -> Result<(), ClientError> {
    let path = path_of::<SchedulePod>(&meta.key());
    let client = &environment.client;
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": timestamp(environment.clock.now()),
    });
    let patch = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}});
    let status = format!("{path}/status");
    match client
        .request(Method::PATCH, &status, STRATEGIC_PATCH, Some(&patch))
        .await
    {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": meta.uid}});
    match client.request(Method::DELETE, &path, JSON, Some(&options)).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    }
    let message = format!("Marking for deletion Pod {}", meta.key());
    let pod = SchedulePod {
        metadata: meta,
        ..SchedulePod::default()
    };
    let event = EventText::normal("TaintManagerEviction", message);
    environment
        .events
        .record(Controller::TaintEviction.name(), &pod, vec![event])
        .await;
    Ok(())
}
