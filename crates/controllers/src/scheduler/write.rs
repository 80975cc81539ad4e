//! Giving Pods to Nodes, and telling on Pods why they have none.

use api::object::ObjectMeta;
use client::{ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::SCHEDULER_NAME;
use super::pod::SchedulePod;
use crate::events::{Finding, tell_as};
use crate::run::Environment;
use crate::write::{decode, path_of};

/// What is to be done about a Pod.
#[derive(Debug)]
pub(super) struct Job {
    /// It, as it was known.
    pub(super) pod: SchedulePod,
    pub(super) place: Place,
    /// The time that the write says.
    pub(super) now: Timestamp,
}

/// Where a Pod goes.
#[derive(Debug)]
pub(super) enum Place {
    /// On this Node.
    On(String),
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// What became of a Pod.
#[derive(Debug)]
pub(super) enum Answer {
    /// The server has it like this.
    Now(Box<SchedulePod>),
    /// It is gone, or another one is in its place.
    Gone(Box<ObjectMeta>),
}

/// Writes where a Pod goes, and tells people. Somebody else's write since the Pod was read is a conflict.
pub(super) async fn carry_out(environment: &Environment, job: Job) -> Result<Answer, ClientError> {
    let Job { pod, place, now } = job;
    let path = path_of::<SchedulePod>(&pod.metadata.key());
    let metadata = json!({"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version});
    let (path, kind, patch) = match &place {
        Place::On(node) => (
            path,
            MERGE_PATCH,
            json!({"metadata": metadata, "spec": {"nodeName": node}}),
        ),
        Place::Nowhere(why) => {
            let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": why, "lastTransitionTime": time});
            (
                format!("{path}/status"),
                STRATEGIC_PATCH,
                json!({"metadata": metadata, "status": {"conditions": [condition]}}),
            )
        }
    };
    let client = &environment.client;
    let written = match client.request(Method::PATCH, &path, kind, Some(&patch)).await {
        Ok(answer) => decode::<SchedulePod>(path, answer)?,
        Err(error) if error.is_not_found() => return Ok(Answer::Gone(Box::new(pod.metadata))),
        Err(error) => return Err(error),
    };
    let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    let finding = match place {
        Place::On(node) => Finding::normal("Scheduled", format!("Successfully assigned {name} to {node}")),
        Place::Nowhere(why) => Finding::warning("FailedScheduling", why),
    };
    tell_as(environment, SCHEDULER_NAME, &pod, vec![finding]).await;
    Ok(Answer::Now(Box::new(written)))
}
