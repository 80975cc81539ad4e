//! Carrying out steps on ReplicaSets and their Pods.

use std::collections::HashMap;

use api::object::{ObjectMeta, ReplicaSet, Resource};
use api::tree::child;
use client::{Client, ClientError, JSON};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::pod::ReplicaPod;
use super::reconcile::{Inputs, Step, owned, reconcile};
use super::status::{Failure, patch_of, status_of};
use crate::events::{Finding, tell};
use crate::owned::reference_to;
use crate::owners::{self, read_anew, write_claims};
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::{decode, patch_status, path_of, told};

/// What is to be done about a ReplicaSet.
#[derive(Debug)]
pub(super) struct Job {
    /// It, as it was known.
    pub(super) set: ReplicaSet,
    /// The Pods that it was known to have, and those that it may take.
    pub(super) pods: Vec<ReplicaPod>,
    /// The active Pods of ReplicaSets with the same owner, by Node.
    pub(super) siblings: HashMap<String, usize>,
    /// What is next. None if it is open what an earlier job did: then what is there is read before that is decided.
    pub(super) step: Option<Step>,
}

/// What became of it.
pub(super) type Answer = owners::Answer<ReplicaSet, ReplicaPod>;

/// Carries out a job. After an error it is open what of it was done.
pub(super) async fn carry_out(environment: &Environment, job: Job) -> Result<Answer, ClientError> {
    let mut answer = Answer::default();
    let Job {
        mut set,
        mut pods,
        siblings,
        step,
    } = job;
    let step = match step {
        Some(step) => step,
        None => {
            let read = read_anew(&environment.client, &set, |now| &now.spec.selector);
            let Some((now, listed)) = read.await? else {
                answer.is_gone = true;
                return Ok(answer);
            };
            (set, pods) = (now, listed.items.clone());
            answer.owner = Some(Box::new(set.clone()));
            answer.listed = Some(listed);
            let outcome = reconcile(&Inputs {
                set: &set,
                pods: &pods.iter().collect::<Vec<_>>(),
                siblings: &siblings,
                now: environment.clock.now(),
            });
            match outcome.step {
                Some(step) => step,
                None => return Ok(answer),
            }
        }
    };
    match step {
        Step::Claim(claims) => {
            let claimed = write_claims(&environment.client, &set, claims).await?;
            answer = Answer {
                listed: answer.listed,
                ..claimed
            };
        }
        Step::Create(count) => create(environment, &set, &pods, count, &mut answer).await?,
        Step::Delete(doomed) => delete(environment, &set, &pods, doomed, &mut answer).await?,
        Step::Say(status) => {
            let said = patch_status(&environment.client, &set, &patch_of(&set, &status)).await?;
            answer.owner = Some(Box::new(said));
        }
    }
    Ok(answer)
}

/// Creates Pods, one, then two, then four at a time, so that what would fail fails once and not five hundred times.
async fn create(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[ReplicaPod],
    count: usize,
    answer: &mut Answer,
) -> Result<(), ClientError> {
    let pod = pod_of(set);
    let (mut left, mut batch) = (count, 1);
    let mut findings = Vec::new();
    let mut failed = None;
    while left > 0 && failed.is_none() {
        let mut tasks = JoinSet::new();
        for _ in 0..batch.min(left) {
            let (client, pod) = (environment.client.clone(), pod.clone());
            let path = ReplicaPod::collection(Some(&set.metadata.namespace));
            tasks.spawn(async move {
                let answer = client.request(Method::POST, &path, JSON, Some(&pod)).await?;
                decode::<ReplicaPod>(path, answer)
            });
        }
        for outcome in tasks.join_all().await {
            match outcome {
                Ok(pod) => {
                    let message = format!("Created pod: {}", pod.metadata.name);
                    findings.push(Finding::normal("SuccessfulCreate", message));
                    answer.objects.push(pod);
                }
                // Where all is about to go nothing can be created, and need not be.
                Err(error) if error.is_namespace_terminating() => left = 0,
                Err(error) => failed = Some(error),
            }
        }
        left = left.saturating_sub(batch);
        batch *= 2;
    }
    let failure = failed.as_ref().map(|error| {
        let message = format!("Error creating: {}", told(error));
        findings.push(Finding::warning("FailedCreate", message));
        Failure {
            reason: "FailedCreate",
            message: told(error),
        }
    });
    let mut now: Vec<&ReplicaPod> = pods.iter().collect();
    now.extend(&answer.objects);
    finish(environment, set, &now, findings, failed.zip(failure)).await
}

/// Deletes Pods as they were ranked: one that changed since then is looked at again first.
async fn delete(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[ReplicaPod],
    doomed: Vec<ObjectMeta>,
    answer: &mut Answer,
) -> Result<(), ClientError> {
    let mut tasks = JoinSet::new();
    for meta in doomed {
        let client = environment.client.clone();
        tasks.spawn(async move { (delete_pod(&client, &meta).await, meta) });
    }
    let mut findings = Vec::new();
    let mut failed = None;
    for (outcome, meta) in tasks.join_all().await {
        match outcome {
            Ok(ending) => {
                let message = format!("Deleted pod: {}", meta.name);
                findings.push(Finding::normal("SuccessfulDelete", message));
                match ending {
                    Some(pod) => answer.objects.push(pod),
                    None => answer.gone.push(meta),
                }
            }
            Err(error) if error.is_not_found() => answer.gone.push(meta),
            Err(error) => failed = Some(error),
        }
    }
    let failure = failed.as_ref().filter(|error| !error.is_conflict()).map(|error| {
        let message = format!("Error deleting: {}", told(error));
        findings.push(Finding::warning("FailedDelete", message));
        Failure {
            reason: "FailedDelete",
            message: told(error),
        }
    });
    if failure.is_none()
        && let Some(error) = failed
    {
        // Somebody else's write on a Pod is no failure that anybody needs to know of.
        tell(environment, Controller::ReplicaSet, set, findings).await;
        return Err(error);
    }
    let now: Vec<&ReplicaPod> = pods.iter().collect();
    finish(environment, set, &now, findings, failed.zip(failure)).await
}

/// Deletes a Pod; returns it if it ends some time later.
async fn delete_pod(client: &Client, meta: &ObjectMeta) -> Result<Option<ReplicaPod>, ClientError> {
    let preconditions = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
    let path = path_of::<ReplicaPod>(&meta.key());
    let answer = client
        .request(Method::DELETE, &path, JSON, Some(&options))
        .await?;
    if child(&answer, "metadata").get("deletionTimestamp").is_none() {
        return Ok(None);
    }
    decode(path, answer).map(Some)
}

/// Tells people what was done. What failed is said in the status too, and is tried again.
async fn finish(
    environment: &Environment,
    set: &ReplicaSet,
    pods: &[&ReplicaPod],
    findings: Vec<Finding>,
    failed: Option<(ClientError, Failure)>,
) -> Result<(), ClientError> {
    tell(environment, Controller::ReplicaSet, set, findings).await;
    let Some((error, failure)) = failed else {
        return Ok(());
    };
    let status = status_of(set, &owned(set, pods), Some(&failure), environment.clock.now());
    if status != set.status
        && let Err(error) = patch_status(&environment.client, set, &patch_of(set, &status)).await
    {
        tracing::debug!(%error, "the status of a ReplicaSet that failed is said at the next try");
    }
    Err(error)
}

/// A Pod as the template has it.
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
