//! Writes of Deployments and their ReplicaSets.

use api::object::{Deployment, ObjectKey, ReplicaSet, Resource};
use client::{Client, ClientError, JSON};
use http::Method;
use reconcile::events::EventText;
use serde_json::json;

use super::HASH_LABEL;
use super::naming::has_template;
use super::reconcile::{Inputs, OldPodsState, Step, reconcile};
use super::rollout::{NewReplicaSet, ReplicaSetChange};
use super::status::{StatusUpdate, status_after_creation};
use crate::api_requests::{decode, delete, list, merge, patch_status, path_of, read, status_message};
use crate::environment::Environment;
use crate::owned_objects::read_selector;
use crate::owner_cache::{self, read_current, write_owner_changes};
use crate::replica_set::ReplicaPod;
use crate::selection::Controller;

/// A step of a Deployment.
#[derive(Debug)]
pub(super) struct Job {
    /// The Deployment as it was cached.
    pub(super) deployment: Deployment,
    /// Result of the last list of old Pods.
    pub(super) old_pods: OldPodsState,
    /// The step; `None` if the effect of an earlier job is unknown. Then the objects are read before the next
    /// decision.
    pub(super) step: Option<Step>,
}

/// The result of a job.
#[derive(Debug, Default)]
pub(super) struct JobOutput {
    /// State of the Deployment and its ReplicaSets in the responses.
    pub(super) server_state: owner_cache::ServerState<Deployment, ReplicaSet>,
    /// Result of a list of old Pods, with the generation of the Deployment.
    pub(super) old_pods: Option<(i64, OldPodsState)>,
}

/// Runs a job. After an error the effect of its writes is unknown.
pub(super) async fn execute(environment: &Environment, job: Job) -> Result<JobOutput, ClientError> {
    let mut output = JobOutput::default();
    let Job {
        mut deployment,
        old_pods,
        step,
    } = job;
    let step = match step {
        Some(step) => step,
        None => {
            let read = read_current(&environment.client, &deployment, |now| &now.spec.selector);
            let Some((now, listed)) = read.await? else {
                output.server_state.is_deleted = true;
                return Ok(output);
            };
            deployment = now;
            output.server_state.owner = Some(Box::new(deployment.clone()));
            let decision = reconcile(&Inputs {
                deployment: &deployment,
                sets: &listed.items.iter().collect::<Vec<_>>(),
                old_pods,
                now: environment.clock.now(),
            });
            output.server_state.listed = Some(listed);
            match decision.step {
                Some(step) => step,
                None => return Ok(output),
            }
        }
    };
    write(environment, &deployment, step, &mut output).await?;
    Ok(output)
}

/// Writes a step, and adds the responses to `output`.
async fn write(
    environment: &Environment,
    deployment: &Deployment,
    step: Step,
    output: &mut JobOutput,
) -> Result<(), ClientError> {
    match step {
        Step::ChangeOwners(changes) => {
            let written = write_owner_changes(&environment.client, deployment, changes).await?;
            output.server_state = owner_cache::ServerState {
                listed: output.server_state.listed.take(),
                ..written
            };
        }
        Step::Create(new) => create(environment, deployment, *new, output).await?,
        Step::Change(changes) => {
            for change in changes {
                let set = patch_replica_set(environment, deployment, change).await?;
                output.server_state.objects.push(set);
            }
        }
        Step::Delete(excess_sets) => {
            for meta in excess_sets {
                delete::<ReplicaSet>(&environment.client, &meta).await?;
                output.server_state.deleted.push(meta);
            }
        }
        Step::ListOldPods(hash) => {
            let old_pods = list_old_pods(&environment.client, deployment, &hash).await?;
            output.old_pods = Some((deployment.metadata.generation, old_pods));
        }
        Step::UpdateStatus(update) => {
            let update = patch_status(&environment.client, deployment, &update.patch(deployment)).await?;
            output.server_state.owner = Some(Box::new(update));
        }
    }
    Ok(())
}

/// Creates a ReplicaSet and records an Event. If another ReplicaSet has the name, the next attempt uses
/// another name.
async fn create(
    environment: &Environment,
    deployment: &Deployment,
    new: NewReplicaSet,
    output: &mut JobOutput,
) -> Result<(), ClientError> {
    let client = &environment.client;
    let path = ReplicaSet::collection(Some(&deployment.metadata.namespace));
    let (now, name) = (environment.clock.now(), &new.name);
    let set: ReplicaSet = match client.request(Method::POST, &path, JSON, Some(&new.object)).await {
        Ok(created) => decode(path, created)?,
        Err(error) if error.is_conflict() => {
            return resolve_name_conflict(client, deployment, name, output, error).await;
        }
        // A terminating namespace accepts no new objects and needs none.
        Err(error) if error.is_namespace_terminating() => return Ok(()),
        Err(error) => {
            let message = format!(
                "Failed to create new replica set \"{name}\": {}",
                status_message(&error)
            );
            let finding = EventText::warning("ReplicaSetCreateError", message.clone());
            environment
                .events
                .record(Controller::Deployment.name(), deployment, vec![finding])
                .await;
            let update = status_after_creation(deployment, None, name, Some(&message), now);
            if update.differs_from(deployment)
                && let Err(error) = patch_status(client, deployment, &update.patch(deployment)).await
            {
                tracing::debug!(%error, "status update failed; retrying");
            }
            return Err(error);
        }
    };
    output.server_state.objects.push(set);
    if new.replicas > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {}", new.replicas);
        let finding = EventText::normal("ScalingReplicaSet", message);
        environment
            .events
            .record(Controller::Deployment.name(), deployment, vec![finding])
            .await;
    }
    let update = status_after_creation(deployment, Some(new.revision), name, None, now);
    // A ReplicaSet that is created again after its deletion may leave the status unchanged.
    if update.differs_from(deployment) {
        let update = patch_status(client, deployment, &update.patch(deployment)).await?;
        output.server_state.owner = Some(Box::new(update));
    }
    Ok(())
}

/// Handles a name that exists: either the ReplicaSet is the desired one, or the hash collides.
async fn resolve_name_conflict(
    client: &Client,
    deployment: &Deployment,
    name: &str,
    output: &mut JobOutput,
    error: ClientError,
) -> Result<(), ClientError> {
    let key = ObjectKey::new(&deployment.metadata.namespace, name);
    let Some(taken) = read::<ReplicaSet>(client, &key).await? else {
        return Err(error);
    };
    let is_own = taken
        .metadata
        .controller()
        .is_some_and(|controller| controller.uid == deployment.metadata.uid);
    if is_own && has_template(&taken, &deployment.spec.template) {
        output.server_state.objects.push(taken);
        return Ok(());
    }
    let mut status = deployment.status.clone();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    let update = StatusUpdate {
        status,
        revision: None,
    };
    let update = patch_status(client, deployment, &update.patch(deployment)).await?;
    output.server_state.owner = Some(Box::new(update));
    Ok(())
}

/// Changes a ReplicaSet and records an Event about its size.
async fn patch_replica_set(
    environment: &Environment,
    deployment: &Deployment,
    change: ReplicaSetChange,
) -> Result<ReplicaSet, ClientError> {
    let ReplicaSetChange {
        meta,
        replicas,
        min_ready_seconds,
        annotations,
    } = change;
    let mut patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(annotations);
    }
    if let Some((_, replicas)) = replicas {
        patch["spec"]["replicas"] = replicas.into();
    }
    if let Some(seconds) = min_ready_seconds {
        patch["spec"]["minReadySeconds"] = seconds.into();
    }
    let set = merge(&environment.client, path_of::<ReplicaSet>(&meta.key()), &patch).await?;
    if let Some((before, after)) = replicas {
        let direction = if after > before { "up" } else { "down" };
        let message = format!(
            "Scaled {direction} replica set {} from {before} to {after}",
            meta.name
        );
        let finding = EventText::normal("ScalingReplicaSet", message);
        environment
            .events
            .record(Controller::Deployment.name(), deployment, vec![finding])
            .await;
    }
    Ok(set)
}

/// Returns true if all Pods of old templates have ended. Pods of the newest template have the label `hash`.
async fn list_old_pods(
    client: &Client,
    deployment: &Deployment,
    hash: &str,
) -> Result<OldPodsState, ClientError> {
    let Some(selector) = read_selector(&deployment.spec.selector) else {
        return Ok(OldPodsState::Gone);
    };
    let namespace = &deployment.metadata.namespace;
    let pods = list::<ReplicaPod>(client, namespace, &selector.to_string()).await?;
    let is_old = |pod: &ReplicaPod| {
        let is_of_replica_set = pod
            .metadata
            .controller()
            .is_some_and(|owner| owner.kind == ReplicaSet::KIND);
        is_of_replica_set
            && pod
                .metadata
                .labels
                .get(HASH_LABEL)
                .is_some_and(|label| label != hash)
    };
    let runs = pods.items.iter().any(|pod| is_old(pod) && !pod.is_finished());
    Ok(if runs {
        OldPodsState::Running
    } else {
        OldPodsState::Gone
    })
}
