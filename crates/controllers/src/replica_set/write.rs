//! Writes of ReplicaSets and their Pods.

use std::collections::HashMap;

use api::object::{ObjectMeta, ReplicaSet, Resource};
use api::tree::{child, is_set, items, number};
use client::{Client, ClientError, JSON};
use http::Method;
use reconcile::events::EventText;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::pod::ReplicaPod;
use super::reconcile::{Inputs, Step, owned_pods, reconcile};
use super::status::{Failure, status_of, status_patch};
use crate::api_requests::{decode, patch_status, path_of, status_message};
use crate::environment::Environment;
use crate::owned_objects::reference_to;
use crate::owner_cache::{self, read_current, write_owner_changes};
use crate::selection::Controller;

/// A step of a ReplicaSet.
#[derive(Debug)]
pub(super) struct Job {
    /// The ReplicaSet as it was cached.
    pub(super) set: ReplicaSet,
    /// The cached Pods that it owns or may adopt.
    pub(super) pods: Vec<ReplicaPod>,
    /// Active Pods of ReplicaSets with the same owner by Node.
    pub(super) siblings: HashMap<String, usize>,
    /// The step; `None` if the effect of an earlier job is unknown. Then the objects are read before the next
    /// decision.
    pub(super) step: Option<Step>,
}

/// The result of a job.
pub(super) type JobOutput = owner_cache::ServerState<ReplicaSet, ReplicaPod>;

/// Runs a job. After an error the effect of its writes is unknown.
pub(super) async fn execute(environment: &Environment, job: Job) -> Result<JobOutput, ClientError> {
    let mut output = JobOutput::default();
    let Job {
        mut set,
        mut pods,
        siblings,
        step,
    } = job;
    let step = match step {
        Some(step) => step,
        None => {
            let read = read_current(&environment.client, &set, |now| &now.spec.selector);
            let Some((now, listed)) = read.await? else {
                output.is_deleted = true;
                return Ok(output);
            };
            (set, pods) = (now, listed.items.clone());
            output.owner = Some(Box::new(set.clone()));
            output.listed = Some(listed);
            let decision = reconcile(&Inputs {
                set: &set,
                pods: &pods.iter().collect::<Vec<_>>(),
                siblings: &siblings,
                now: environment.clock.now(),
            });
            match decision.step {
                Some(step) => step,
                None => return Ok(output),
            }
        }
    };
    match step {
        Step::ChangeOwners(changes) => {
            let written = write_owner_changes(&environment.client, &set, changes).await?;
            output = JobOutput {
                listed: output.listed,
                ..written
            };
        }
        Step::Create(count) => create(environment, &set, &pods, count, &mut output).await?,
        Step::Delete(excess_pods) => delete(environment, &set, &pods, excess_pods, &mut output).await?,
        Step::UpdateStatus(status) => {
            let updated = patch_status(&environment.client, &set, &status_patch(&set, &status)).await?;
            output.owner = Some(Box::new(updated));
        }
    }
    Ok(output)
}

/// Creates Pods in batches that double from one, so that a persistent error occurs once and not 500 times.
async fn create(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[ReplicaPod],
    count: usize,
    output: &mut JobOutput,
) -> Result<(), ClientError> {
    let pod = pod_of(set);
    let (mut left, mut batch) = (count, 1);
    let mut events = Vec::new();
    let mut failed = None;
    while left > 0 && failed.is_none() {
        let mut tasks = JoinSet::new();
        for _ in 0..batch.min(left) {
            let (client, pod) = (environment.client.clone(), pod.clone());
            let path = ReplicaPod::collection(Some(&set.metadata.namespace));
            tasks.spawn(async move {
                let response = client.request(Method::POST, &path, JSON, Some(&pod)).await?;
                decode::<ReplicaPod>(path, response)
            });
        }
        for outcome in tasks.join_all().await {
            match outcome {
                Ok(pod) => {
                    let message = format!("Created pod: {}", pod.metadata.name);
                    events.push(EventText::normal("SuccessfulCreate", message));
                    output.objects.push(pod);
                }
                // A terminating namespace accepts no new objects and needs none.
                Err(error) if error.is_namespace_terminating() => left = 0,
                Err(error) => failed = Some(error),
            }
        }
        left = left.saturating_sub(batch);
        batch *= 2;
    }
    let failure = failed.as_ref().map(|error| {
        let message = format!("Error creating: {}", status_message(error));
        events.push(EventText::warning("FailedCreate", message));
        Failure {
            reason: "FailedCreate",
            message: status_message(error),
        }
    });
    let mut now: Vec<&ReplicaPod> = pods.iter().collect();
    now.extend(&output.objects);
    record_result(environment, set, &now, events, failed.zip(failure)).await
}

/// Deletes Pods. One that changed after the ranking is a conflict and is ranked again.
async fn delete(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[ReplicaPod],
    excess_pods: Vec<ObjectMeta>,
    output: &mut JobOutput,
) -> Result<(), ClientError> {
    let mut tasks = JoinSet::new();
    for meta in excess_pods {
        let client = environment.client.clone();
        tasks.spawn(async move { (delete_pod(&client, &meta).await, meta) });
    }
    let mut events = Vec::new();
    let mut failed = None;
    for (outcome, meta) in tasks.join_all().await {
        match outcome {
            Ok(completion) => {
                let message = format!("Deleted pod: {}", meta.name);
                events.push(EventText::normal("SuccessfulDelete", message));
                match completion {
                    Some(pod) => output.objects.push(pod),
                    None => output.deleted.push(meta),
                }
            }
            Err(error) if error.is_not_found() => output.deleted.push(meta),
            Err(error) => failed = Some(error),
        }
    }
    let failure = failed.as_ref().filter(|error| !error.is_conflict()).map(|error| {
        let message = format!("Error deleting: {}", status_message(error));
        events.push(EventText::warning("FailedDelete", message));
        Failure {
            reason: "FailedDelete",
            message: status_message(error),
        }
    });
    if failure.is_none()
        && let Some(error) = failed
    {
        // A conflict is part of optimistic concurrency: no Event.
        environment
            .events
            .record(Controller::ReplicaSet.name(), set, events)
            .await;
        return Err(error);
    }
    let now: Vec<&ReplicaPod> = pods.iter().collect();
    record_result(environment, set, &now, events, failed.zip(failure)).await
}

/// Deletes a Pod; returns it if it has a grace period.
pub(crate) async fn delete_pod(
    client: &Client,
    meta: &ObjectMeta,
) -> Result<Option<ReplicaPod>, ClientError> {
    let preconditions = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
    let path = path_of::<ReplicaPod>(&meta.key());
    let response = client
        .request(Method::DELETE, &path, JSON, Some(&options))
        .await?;
    if !is_still_present(&response) {
        return Ok(None);
    }
    decode(path, response).map(Some)
}

/// Returns true if the Pod in the response to its deletion still exists. A removed Pod has a grace period of zero and no
/// finalizers.
fn is_still_present(pod: &Value) -> bool {
    let metadata = child(pod, "metadata");
    let is_removed =
        number(metadata, "deletionGracePeriodSeconds") == 0 && items(metadata, "finalizers").is_empty();
    is_set(metadata, "deletionTimestamp") && !is_removed
}

/// Records Events, and writes a failure to the status before it is returned.
async fn record_result(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[&ReplicaPod],
    events: Vec<EventText>,
    failed: Option<(ClientError, Failure)>,
) -> Result<(), ClientError> {
    environment
        .events
        .record(Controller::ReplicaSet.name(), set, events)
        .await;
    let Some((error, failure)) = failed else {
        return Ok(());
    };
    let status = status_of(
        set,
        &owned_pods(set, pods),
        Some(&failure),
        environment.clock.now(),
    );
    if status != set.status
        && let Err(error) = patch_status(&environment.client, set, &status_patch(set, &status)).await
    {
        tracing::debug!(%error, "status update failed; retrying");
    }
    Err(error)
}

/// Returns a Pod from the template.
fn pod_of(set: &ReplicaSet) -> Value {
    let template = &set.spec.template;
    let metadata = child(template, "metadata");
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", set.metadata.name),
            "namespace": set.metadata.namespace,
            "ownerReferences": [reference_to(set)],
        },
        "spec": child(template, "spec"),
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = metadata.get(field) {
            pod["metadata"][field] = value.clone();
        }
    }
    pod
}

#[cfg(test)]
mod tests;
