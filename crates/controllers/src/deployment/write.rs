//! Carrying out steps on Deployments and their ReplicaSets.

use api::object::{Deployment, ObjectKey, ReplicaSet, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::json;

use super::HASH_LABEL;
use super::naming::is_of;
use super::reconcile::{Inputs, NewSet, OldPods, SetChange, Step, reconcile};
use super::status::{Said, said_of_creation};
use crate::events::{Finding, tell};
use crate::owned::read_selector;
use crate::owners::{self, read_anew, write_claims};
use crate::replicaset::ReplicaPod;
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::{decode, delete, list, patch_status, path_of, read, told};

/// What is to be done about a Deployment.
#[derive(Debug)]
pub(super) struct Job {
    /// It, as it was known.
    pub(super) deployment: Deployment,
    /// What is known of Pods of old templates.
    pub(super) old_pods: OldPods,
    /// What is next. None if it is open what an earlier job did: then what is there is read before that is decided.
    pub(super) step: Option<Step>,
}

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What the server said of the Deployment and its ReplicaSets.
    pub(super) said: owners::Answer<Deployment, ReplicaSet>,
    /// What the server said of Pods of old templates, if it was asked, and for which generation of the Deployment.
    pub(super) old_pods: Option<(i64, OldPods)>,
}

/// Carries out a job. After an error it is open what of it was done.
pub(super) async fn carry_out(environment: &Environment, job: Job) -> Result<Answer, ClientError> {
    let mut answer = Answer::default();
    let Job {
        mut deployment,
        old_pods,
        step,
    } = job;
    let step = match step {
        Some(step) => step,
        None => {
            let read = read_anew(&environment.client, &deployment, |now| &now.spec.selector);
            let Some((now, listed)) = read.await? else {
                answer.said.is_gone = true;
                return Ok(answer);
            };
            deployment = now;
            answer.said.owner = Some(Box::new(deployment.clone()));
            let outcome = reconcile(&Inputs {
                deployment: &deployment,
                sets: &listed.items.iter().collect::<Vec<_>>(),
                old_pods,
                now: environment.clock.now(),
            });
            answer.said.listed = Some(listed);
            match outcome.step {
                Some(step) => step,
                None => return Ok(answer),
            }
        }
    };
    match step {
        Step::Claim(claims) => {
            let claimed = write_claims(&environment.client, &deployment, claims).await?;
            answer.said = owners::Answer {
                listed: answer.said.listed,
                ..claimed
            };
        }
        Step::Create(new) => create(environment, &deployment, *new, &mut answer).await?,
        Step::Change(changes) => {
            for change in changes {
                let set = change_set(environment, &deployment, change).await?;
                answer.said.objects.push(set);
            }
        }
        Step::Delete(doomed) => {
            for meta in doomed {
                delete::<ReplicaSet>(&environment.client, &meta).await?;
                answer.said.gone.push(meta);
            }
        }
        Step::LookForOldPods(hash) => {
            let old_pods = look_for_old_pods(&environment.client, &deployment, &hash).await?;
            answer.old_pods = Some((deployment.metadata.generation, old_pods));
        }
        Step::Say(said) => {
            let said = patch_status(&environment.client, &deployment, &said.patch(&deployment)).await?;
            answer.said.owner = Some(Box::new(said));
        }
    }
    Ok(answer)
}

/// Makes a ReplicaSet, and says so. If the name is taken by another one, the next try is made under another name.
async fn create(
    environment: &Environment,
    deployment: &Deployment,
    new: NewSet,
    answer: &mut Answer,
) -> Result<(), ClientError> {
    let client = &environment.client;
    let path = ReplicaSet::collection(Some(&deployment.metadata.namespace));
    let (now, name) = (environment.clock.now(), &new.name);
    let set: ReplicaSet = match client.request(Method::POST, &path, JSON, Some(&new.object)).await {
        Ok(created) => decode(path, created)?,
        Err(error) if error.is_conflict() => {
            return find_taken(client, deployment, name, answer, error).await;
        }
        // Where all is about to go nothing can be created, and need not be.
        Err(error) if error.is_namespace_terminating() => return Ok(()),
        Err(error) => {
            let message = format!("Failed to create new replica set \"{name}\": {}", told(&error));
            let finding = Finding::warning("ReplicaSetCreateError", message.clone());
            tell(environment, Controller::Deployment, deployment, vec![finding]).await;
            let said = said_of_creation(deployment, None, name, Some(&message), now);
            if said.is_news(deployment)
                && let Err(error) = patch_status(client, deployment, &said.patch(deployment)).await
            {
                tracing::debug!(%error, "the status of a Deployment that failed is said at the next try");
            }
            return Err(error);
        }
    };
    answer.said.objects.push(set);
    if new.replicas > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {}", new.replicas);
        let finding = Finding::normal("ScalingReplicaSet", message);
        tell(environment, Controller::Deployment, deployment, vec![finding]).await;
    }
    let said = said_of_creation(deployment, Some(new.revision), name, None, now);
    // One that is made again, since somebody deleted it, may have been told before.
    if said.is_news(deployment) {
        let said = patch_status(client, deployment, &said.patch(deployment)).await?;
        answer.said.owner = Some(Box::new(said));
    }
    Ok(())
}

/// The name of a ReplicaSet is taken: by the one that was to be made, which is well, or by another one.
async fn find_taken(
    client: &Client,
    deployment: &Deployment,
    name: &str,
    answer: &mut Answer,
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
    if is_own && is_of(&taken, &deployment.spec.template) {
        answer.said.objects.push(taken);
        return Ok(());
    }
    let mut status = deployment.status.clone();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    let said = Said {
        status,
        revision: None,
    };
    let said = patch_status(client, deployment, &said.patch(deployment)).await?;
    answer.said.owner = Some(Box::new(said));
    Ok(())
}

/// Changes a ReplicaSet, and tells how many Pods it is to have.
async fn change_set(
    environment: &Environment,
    deployment: &Deployment,
    change: SetChange,
) -> Result<ReplicaSet, ClientError> {
    let SetChange {
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
    let path = path_of::<ReplicaSet>(&meta.key());
    let client = &environment.client;
    let answer = client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await?;
    if let Some((before, after)) = replicas {
        let way = if after > before { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {} from {before} to {after}", meta.name);
        let finding = Finding::normal("ScalingReplicaSet", message);
        tell(environment, Controller::Deployment, deployment, vec![finding]).await;
    }
    decode(path, answer)
}

/// Whether Pods of old templates have not ended; those of the newest have the label of this hash.
async fn look_for_old_pods(
    client: &Client,
    deployment: &Deployment,
    hash: &str,
) -> Result<OldPods, ClientError> {
    let Some(selector) = read_selector(&deployment.spec.selector) else {
        return Ok(OldPods::Gone);
    };
    let namespace = &deployment.metadata.namespace;
    let pods = list::<ReplicaPod>(client, namespace, &selector.to_string()).await?;
    let is_old = |pod: &ReplicaPod| {
        let of_set = pod
            .metadata
            .controller()
            .is_some_and(|owner| owner.kind == ReplicaSet::KIND);
        of_set
            && pod
                .metadata
                .labels
                .get(HASH_LABEL)
                .is_some_and(|label| label != hash)
    };
    let runs = pods.items.iter().any(|pod| is_old(pod) && !pod.is_finished());
    Ok(if runs { OldPods::Running } else { OldPods::Gone })
}
