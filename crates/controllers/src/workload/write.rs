//! Writes of workloads, their Pods and ControllerRevisions.

use api::object::{ControllerRevision, ObjectKey, ObjectMeta, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use reconcile::events::EventText;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::controller::is_foreign;
use super::{PodChanges, Step, Workload};
use crate::api_requests::{create, decode, delete, path_of, status_message};
use crate::environment::Environment;
use crate::job::FINALIZER;
use crate::owner_cache::{ServerState, read_current, write_owner_changes};
use crate::replica_set::{ReplicaPod, delete_pod};

/// A unit of work.
#[derive(Debug)]
pub(super) enum Job<W> {
    /// Write a step of the object as it was cached.
    Write(Box<W>, Step),
    /// Read an object and its Pods, because the effect of an earlier job is unknown.
    Read(Box<W>),
    /// Release Pods that name the object with this key, but are not its Pods.
    Release(ObjectKey, Vec<ObjectMeta>),
}

/// The result of a job.
#[derive(Debug)]
pub(super) struct JobOutput<W> {
    /// The object and its Pods.
    pub(super) state: ServerState<W, ReplicaPod>,
    /// ControllerRevisions that were written.
    pub(super) revisions: Vec<ControllerRevision>,
    /// ControllerRevisions that are deleted.
    pub(super) deleted_revisions: Vec<ObjectMeta>,
}

impl<W> Default for JobOutput<W> {
    fn default() -> Self {
        Self {
            state: ServerState::default(),
            revisions: Vec::new(),
            deleted_revisions: Vec::new(),
        }
    }
}

/// Runs a job. After an error the effect of its writes is unknown.
pub(super) async fn execute<W: Workload>(
    environment: &Environment,
    job: Job<W>,
) -> Result<JobOutput<W>, ClientError> {
    let client = &environment.client;
    let mut output = JobOutput::default();
    match job {
        Job::Read(workload) => match read_current::<W, ReplicaPod>(client, &*workload, W::selector).await? {
            Some((now, listed)) => {
                output.state.owner = Some(Box::new(now));
                output.state.listed = Some(listed);
            }
            None => output.state.is_deleted = true,
        },
        Job::Release(key, mut pods) => {
            let owner = crate::api_requests::read::<W>(client, &key).await?;
            pods.retain(|meta| is_foreign(owner.as_ref(), meta));
            release_pods(client, pods, &mut output.state).await?;
            output.state.owner = owner.map(Box::new);
        }
        Job::Write(workload, step) => write(environment, &*workload, step, &mut output).await?,
    }
    Ok(output)
}

/// Executes a step. Responses go into the output, for the caches.
async fn write<W: Workload>(
    environment: &Environment,
    workload: &W,
    step: Step,
    output: &mut JobOutput<W>,
) -> Result<(), ClientError> {
    let client = &environment.client;
    match step {
        Step::ChangeOwners(changes) => output.state = write_owner_changes(client, workload, changes).await?,
        Step::AdoptRevisions(changes) => {
            let written = write_owner_changes::<W, ControllerRevision>(client, workload, changes).await?;
            output.state.owner = written.owner;
            output.state.is_deleted = written.is_deleted;
            output.revisions = written.objects;
            output.deleted_revisions = written.deleted;
        }
        Step::CreateRevision(revision) => output.revisions.push(create(client, &*revision).await?),
        Step::RenumberRevision(meta, number) => {
            let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "revision": number});
            output.revisions.push(patch_object(client, &meta, &patch).await?);
        }
        Step::DeleteRevisions(revisions) => {
            for meta in revisions {
                delete::<ControllerRevision>(client, &meta).await?;
                output.deleted_revisions.push(meta);
            }
        }
        Step::Pods(changes) => change_pods(environment, workload, changes, &mut output.state).await?,
        Step::ReleasePods(pods) => release_pods(client, pods, &mut output.state).await?,
        Step::WithdrawPods(pods) => withdraw_pods(environment, workload, pods, &mut output.state).await?,
        Step::UpdateStatus(patch, events) => {
            let updated = crate::api_requests::patch_status(client, workload, &patch).await?;
            output.state.owner = Some(Box::new(updated));
            record(environment, workload, events).await;
        }
        Step::DeleteOwner => delete_owner(client, workload, &mut output.state).await?,
    }
    Ok(())
}

async fn patch_object<T: Resource>(
    client: &Client,
    meta: &ObjectMeta,
    patch: &Value,
) -> Result<T, ClientError> {
    let path = path_of::<T>(&meta.key());
    let response = client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(patch))
        .await?;
    decode(path, response)
}

async fn record<W: Workload>(environment: &Environment, workload: &W, events: Vec<EventText>) {
    environment
        .events
        .record(W::CONTROLLER.name(), workload, events)
        .await;
}

/// Deletes Pods, then creates Pods in batches that double from one. A persistent error therefore occurs once and not
/// for each Pod.
async fn change_pods<W: Workload>(
    environment: &Environment,
    workload: &W,
    changes: PodChanges,
    state: &mut ServerState<W, ReplicaPod>,
) -> Result<(), ClientError> {
    let mut events = Vec::new();
    let mut failed = delete_pods(environment, workload, changes.delete, &mut events, state).await;
    let (mut left, mut batch) = (changes.create, 1);
    while failed.is_none() && !left.is_empty() {
        let rest = left.split_off(batch.min(left.len()));
        failed = create_batch(environment, workload, left, &mut events, state).await;
        left = rest;
        batch *= 2;
    }
    record(environment, workload, events).await;
    failed.map_or(Ok(()), Err)
}

async fn delete_pods<W: Workload>(
    environment: &Environment,
    workload: &W,
    pods: Vec<ObjectMeta>,
    events: &mut Vec<EventText>,
    state: &mut ServerState<W, ReplicaPod>,
) -> Option<ClientError> {
    let mut tasks = JoinSet::new();
    for meta in pods {
        let client = environment.client.clone();
        tasks.spawn(async move { (delete_pod(&client, &meta).await, meta) });
    }
    let mut failed = None;
    for (outcome, meta) in tasks.join_all().await {
        match outcome {
            Ok(completion) => {
                let message = workload.message("delete", &meta.name);
                events.push(EventText::normal("SuccessfulDelete", message));
                match completion {
                    Some(pod) => state.objects.push(pod),
                    None => state.deleted.push(meta),
                }
            }
            Err(error) if error.is_not_found() => state.deleted.push(meta),
            Err(error) => {
                // A conflict is part of optimistic concurrency: no Event.
                if !error.is_conflict() {
                    let message = format!("Error deleting: {}", status_message(&error));
                    events.push(EventText::warning("FailedDelete", message));
                }
                failed = Some(error);
            }
        }
    }
    failed
}

async fn create_batch<W: Workload>(
    environment: &Environment,
    workload: &W,
    pods: Vec<Value>,
    events: &mut Vec<EventText>,
    state: &mut ServerState<W, ReplicaPod>,
) -> Option<ClientError> {
    let mut tasks = JoinSet::new();
    for pod in pods {
        let client = environment.client.clone();
        let path = ReplicaPod::collection(Some(&workload.metadata().namespace));
        tasks.spawn(async move {
            let response = client.request(Method::POST, &path, JSON, Some(&pod)).await?;
            decode::<ReplicaPod>(path, response)
        });
    }
    let mut failed = None;
    for outcome in tasks.join_all().await {
        match outcome {
            Ok(pod) => {
                let message = workload.message("create", &pod.metadata.name);
                events.push(EventText::normal("SuccessfulCreate", message));
                state.objects.push(pod);
            }
            Err(error) => {
                // A terminating namespace accepts no new objects: no Event.
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating: {}", status_message(&error));
                    events.push(EventText::warning("FailedCreate", message));
                }
                failed = Some(error);
            }
        }
    }
    failed
}

/// Removes the finalizer of Jobs from Pods.
async fn release_pods<W>(
    client: &Client,
    pods: Vec<ObjectMeta>,
    state: &mut ServerState<W, ReplicaPod>,
) -> Result<(), ClientError> {
    for meta in pods {
        let mut kept = meta.finalizers.clone();
        kept.retain(|finalizer| finalizer != FINALIZER);
        let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
        let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version,
            "finalizers": kept}});
        match patch_object::<ReplicaPod>(client, &meta, &patch).await {
            // Without its last finalizer, a Pod that is being deleted does not exist any more.
            Ok(pod) if pod.metadata.deletion_timestamp.is_some() && pod.metadata.finalizers.is_empty() => {
                state.deleted.push(meta);
            }
            Ok(pod) => state.objects.push(pod),
            Err(error) if error.is_not_found() => state.deleted.push(meta),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the finalizer of Jobs from Pods and deletes them. A Pod without the finalizer does not count, so its
/// deletion is not a failure of the Job.
async fn withdraw_pods<W: Workload>(
    environment: &Environment,
    workload: &W,
    pods: Vec<ObjectMeta>,
    state: &mut ServerState<W, ReplicaPod>,
) -> Result<(), ClientError> {
    let mut released = ServerState::default();
    release_pods::<W>(&environment.client, pods, &mut released).await?;
    state.deleted = released.deleted;
    let delete = released.objects.into_iter().map(|pod| pod.metadata).collect();
    let changes = PodChanges {
        delete,
        ..PodChanges::default()
    };
    change_pods(environment, workload, changes, state).await
}

/// Deletes an object; its Pods are deleted first.
async fn delete_owner<W: Workload>(
    client: &Client,
    workload: &W,
    state: &mut ServerState<W, ReplicaPod>,
) -> Result<(), ClientError> {
    let meta = workload.metadata();
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground",
        "preconditions": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
    let path = path_of::<W>(&meta.key());
    match client.request(Method::DELETE, &path, JSON, Some(&options)).await {
        Ok(_) => {
            state.owner = crate::api_requests::read::<W>(client, &meta.key())
                .await?
                .map(Box::new);
            state.is_deleted = state.owner.is_none();
            Ok(())
        }
        Err(error) if error.is_not_found() => {
            state.is_deleted = true;
            Ok(())
        }
        Err(error) => Err(error),
    }
}
