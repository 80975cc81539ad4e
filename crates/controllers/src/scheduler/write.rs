//! Writes of bindings and of the condition PodScheduled.

use api::object::ObjectMeta;
use client::{ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use reconcile::events::EventText;
use serde_json::json;

use super::SCHEDULER_NAME;
use super::pod::SchedulePod;
use crate::api_requests::{decode, path_of};
use crate::environment::Environment;

/// A scheduling decision to write.
#[derive(Debug)]
pub(super) struct Job {
    /// The Pod as it was cached.
    pub(super) pod: SchedulePod,
    pub(super) placement: Placement,
    /// Timestamp of the write.
    pub(super) now: Timestamp,
}

/// The result of scheduling.
#[derive(Debug)]
pub(super) enum Placement {
    /// Bind the Pod to this Node.
    Node(String),
    /// No Node fits; with the message.
    Unschedulable(String),
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum JobOutput {
    /// The Pod after the write.
    Current(Box<SchedulePod>),
    /// The Pod is deleted or replaced.
    Deleted(Box<ObjectMeta>),
}

/// Writes a decision and records an Event. A write by another client since the Pod was read is a conflict.
pub(super) async fn execute(environment: &Environment, job: Job) -> Result<JobOutput, ClientError> {
    let Job { pod, placement, now } = job;
    let path = path_of::<SchedulePod>(&pod.metadata.key());
    let metadata = json!({"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version});
    let (path, kind, patch) = match &placement {
        Placement::Node(node) => (
            path,
            MERGE_PATCH,
            json!({"metadata": metadata, "spec": {"nodeName": node}}),
        ),
        Placement::Unschedulable(reason) => {
            let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": reason, "lastTransitionTime": time});
            (
                format!("{path}/status"),
                STRATEGIC_PATCH,
                json!({"metadata": metadata, "status": {"conditions": [condition]}}),
            )
        }
    };
    let client = &environment.client;
    let written = match client.request(Method::PATCH, &path, kind, Some(&patch)).await {
        Ok(response) => decode::<SchedulePod>(path, response)?,
        Err(error) if error.is_not_found() => return Ok(JobOutput::Deleted(Box::new(pod.metadata))),
        Err(error) => return Err(error),
    };
    let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    let finding = match placement {
        Placement::Node(node) => {
            EventText::normal("Scheduled", format!("Successfully assigned {name} to {node}"))
        }
        Placement::Unschedulable(reason) => EventText::warning("FailedScheduling", reason),
    };
    environment
        .events
        .record(SCHEDULER_NAME, &pod, vec![finding])
        .await;
    Ok(JobOutput::Current(Box::new(written)))
}
