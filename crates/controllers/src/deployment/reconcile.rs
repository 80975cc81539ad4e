//! What is to be done about a Deployment: a pure function from it and its ReplicaSets.

use std::time::Duration;

use api::object::{Deployment, ObjectMeta, ReplicaSet};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::bounds::{Bounds, is_rolling, is_seen};
use super::naming::{is_of, template_hash, with_hash};
use super::revisions::{
    Annotations, desired_replicas, news_for_newest, news_of_size, next_revision, revision_of,
};
use super::status::{Depth, Said, said};
use super::{HASH_LABEL, UNLIMITED, rolling, scaling};
use crate::owned::{Claim, claims, read_selector, reference_to};

/// How long until the server is asked again whether old Pods are gone.
const OLD_PODS_PERIOD: Duration = Duration::from_secs(1);

/// What is known of the Pods of old templates that no ReplicaSet counts any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldPods {
    /// Nobody has asked.
    Unknown,
    /// Some have not ended.
    Running,
    /// None is there.
    Gone,
}

/// Everything that decides about a Deployment.
pub struct Inputs<'a> {
    /// It.
    pub deployment: &'a Deployment,
    /// The ReplicaSets that it owns, and those of its namespace that nobody owns and its selector chooses.
    pub sets: &'a [&'a ReplicaSet],
    /// What the server said of Pods of old templates; asked for by [`Step::LookForOldPods`].
    pub old_pods: OldPods,
    /// The time of day.
    pub now: Timestamp,
}

/// The next write. After each the Deployment is looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// ReplicaSets become its own, or cease to be.
    Claim(Vec<Claim>),
    /// A ReplicaSet for a new template.
    Create(Box<NewSet>),
    /// ReplicaSets change, in this order.
    Change(Vec<SetChange>),
    /// Old ReplicaSets are deleted that nobody will go back to.
    Delete(Vec<ObjectMeta>),
    /// The server is asked for Pods of old templates, labelled with other hashes than this.
    LookForOldPods(String),
    /// Status and revision become these.
    Say(Box<Said>),
}

/// A ReplicaSet to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSet {
    /// The object.
    pub object: Value,
    /// The name.
    pub name: String,
    /// Pods that it is to have.
    pub replicas: i64,
    /// The number of its template.
    pub revision: i64,
}

/// A change of a ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub struct SetChange {
    /// It, as it was when this was decided.
    pub meta: ObjectMeta,
    /// Pods that it has to have before and after, if that changes.
    pub replicas: Option<(i64, i64)>,
    /// How long its Pods have to be ready from now on, if that changes.
    pub min_ready_seconds: Option<i64>,
    /// Annotations that it gets.
    pub annotations: Annotations,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The next write, if any is due.
    pub step: Option<Step>,
    /// When to look again though nothing has changed.
    pub again_after: Option<Duration>,
}

/// A Deployment and its ReplicaSets, sorted out.
pub(super) struct Scene<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) bounds: Bounds,
    /// The ReplicaSet of the template that is wanted, if there is one.
    pub(super) newest: Option<&'a ReplicaSet>,
    /// All others, the one that was created first first.
    pub(super) old: Vec<&'a ReplicaSet>,
}

/// Decides about a Deployment.
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    let deployment = inputs.deployment;
    let Some(selector) = read_selector(&deployment.spec.selector) else {
        // The server lets none in that cannot be read.
        return Outcome::default();
    };
    let claims = claims(deployment, &selector, inputs.sets.iter().map(|set| &set.metadata));
    if !claims.is_empty() {
        return next(Step::Claim(claims));
    }
    let scene = Scene::of(deployment, inputs.sets);
    let (step, depth, again_after) = match deployment.metadata.deletion_timestamp {
        Some(_) => (None, Depth::Counts, None),
        None => rolled_out(inputs, &scene),
    };
    if let Some(step) = step {
        return next(step);
    }
    let said = said(&scene, depth, inputs.now);
    if said.is_news(deployment) {
        return next(Step::Say(Box::new(said)));
    }
    let deadline = said.deadline_in(deployment, inputs.now);
    Outcome {
        step: None,
        again_after: again_after.into_iter().chain(deadline).min(),
    }
}

fn next(step: Step) -> Outcome {
    Outcome {
        step: Some(step),
        again_after: None,
    }
}

/// The next step towards what is wanted; if there is none, how much is to be said, and when to look again.
fn rolled_out(inputs: &Inputs<'_>, scene: &Scene<'_>) -> (Option<Step>, Depth, Option<Duration>) {
    if let Some(change) = scene.annotated() {
        return (Some(Step::Change(vec![change])), Depth::Counts, None);
    }
    let is_paused = scene.deployment.spec.paused;
    if is_paused || scene.is_scaled() {
        let step = scaling::scaled(scene).map(Step::Change);
        let step = step.or_else(|| is_paused.then(|| scene.cleaned_up()).flatten());
        if is_paused || step.is_some() {
            return (step, Depth::Counts, None);
        }
    }
    let (step, again_after) = match is_rolling(scene.deployment) {
        true => (rolling_step(scene), None),
        false => recreating_step(inputs, scene),
    };
    let is_complete = scene.is_complete();
    let step = step.or_else(|| is_complete.then(|| scene.cleaned_up()).flatten());
    (step, Depth::RollOut, again_after)
}

fn rolling_step(scene: &Scene<'_>) -> Option<Step> {
    let Some(newest) = scene.newest else {
        return Some(scene.created(rolling::room(scene).unwrap_or(0).min(scene.bounds.wanted)));
    };
    let changes = rolling::grown(scene, newest).or_else(|| rolling::shrunk(scene, newest));
    changes.map(Step::Change)
}

/// All old Pods end before the first new one begins.
fn recreating_step(inputs: &Inputs<'_>, scene: &Scene<'_>) -> (Option<Step>, Option<Duration>) {
    let active = scene.old.iter().filter(|set| set.spec.replicas > 0);
    let ended: Vec<SetChange> = active.map(|set| scene.resized(set, 0)).collect();
    if !ended.is_empty() {
        return (Some(Step::Change(ended)), None);
    }
    let is_whole = scene
        .newest
        .is_some_and(|newest| newest.spec.replicas == scene.bounds.wanted);
    if is_whole {
        return (None, None);
    }
    let has_pods = |set: &&ReplicaSet| {
        !is_seen(set) || set.status.replicas > 0 || set.status.terminating_replicas.unwrap_or(0) > 0
    };
    if scene.old.iter().any(has_pods) {
        // Their controller tells when they are gone.
        return (None, None);
    }
    match inputs.old_pods {
        OldPods::Unknown => (Some(Step::LookForOldPods(scene.newest_hash())), None),
        OldPods::Running => (None, Some(OLD_PODS_PERIOD)),
        OldPods::Gone => {
            let step = match scene.newest {
                None => scene.created(scene.bounds.wanted),
                Some(newest) => Step::Change(vec![scene.resized(newest, scene.bounds.wanted)]),
            };
            (Some(step), None)
        }
    }
}

impl<'a> Scene<'a> {
    fn of(deployment: &'a Deployment, sets: &[&'a ReplicaSet]) -> Self {
        let is_own = |set: &&&ReplicaSet| {
            let controller = set.metadata.controller();
            controller.is_some_and(|controller| controller.uid == deployment.metadata.uid)
        };
        let mut own: Vec<&ReplicaSet> = sets.iter().filter(is_own).copied().collect();
        own.sort_by_key(|set| (&set.metadata.creation_timestamp, &set.metadata.name));
        let at = own.iter().position(|set| is_of(set, &deployment.spec.template));
        let newest = at.map(|at| own.remove(at));
        Self {
            deployment,
            bounds: Bounds::of(deployment),
            newest,
            old: own,
        }
    }

    /// All ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().chain(self.newest)
    }

    /// A change of how many Pods a ReplicaSet is to have, with what it has to say of that.
    pub(super) fn resized(&self, set: &ReplicaSet, replicas: i64) -> SetChange {
        SetChange {
            meta: set.metadata.clone(),
            replicas: (replicas != set.spec.replicas).then_some((set.spec.replicas, replicas)),
            min_ready_seconds: None,
            annotations: news_of_size(self.bounds, &set.metadata.annotations),
        }
    }

    /// What the newest ReplicaSet has to say of its Deployment, if it does not.
    fn annotated(&self) -> Option<SetChange> {
        let newest = self.newest?;
        let revision = next_revision(&self.old);
        let annotations = news_for_newest(self.deployment, &newest.metadata.annotations, revision);
        let wanted = self.deployment.spec.min_ready_seconds;
        let min_ready_seconds = (wanted != newest.spec.min_ready_seconds).then_some(wanted);
        let is_news = !annotations.is_empty() || min_ready_seconds.is_some();
        is_news.then(|| SetChange {
            meta: newest.metadata.clone(),
            replicas: None,
            min_ready_seconds,
            annotations,
        })
    }

    /// Whether somebody changed how many Pods there should be since the ReplicaSets were told.
    fn is_scaled(&self) -> bool {
        let active = self.all().filter(|set| set.spec.replicas > 0);
        active
            .filter_map(desired_replicas)
            .any(|desired| desired != self.bounds.wanted)
    }

    /// Whether all that is wanted is there, and nothing else, by what the status says.
    fn is_complete(&self) -> bool {
        let (status, wanted) = (&self.deployment.status, self.bounds.wanted);
        status.updated_replicas == wanted
            && status.replicas == wanted
            && status.available_replicas == wanted
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// The hash of the template that is wanted.
    fn newest_hash(&self) -> String {
        let collisions = self.deployment.status.collision_count.unwrap_or(0);
        let known = self.newest.and_then(|set| set.metadata.labels.get(HASH_LABEL));
        known
            .cloned()
            .unwrap_or_else(|| template_hash(&self.deployment.spec.template, collisions))
    }

    /// A ReplicaSet for the template that is wanted.
    fn created(&self, replicas: i64) -> Step {
        let spec = &self.deployment.spec;
        let meta = &self.deployment.metadata;
        let hash = self.newest_hash();
        let name = format!("{}-{hash}", meta.name);
        let mut template = spec.template.clone();
        template["metadata"] = with_hash(&template["metadata"], "labels", &hash);
        let revision = next_revision(&self.old);
        let none = Default::default();
        let mut annotations = news_for_newest(self.deployment, &none, revision);
        annotations.extend(news_of_size(self.bounds, &none));
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [reference_to(self.deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": with_hash(&spec.selector, "matchLabels", &hash),
                "template": template,
            },
        });
        Step::Create(Box::new(NewSet {
            object,
            name,
            replicas,
            revision,
        }))
    }

    /// The old ReplicaSets beyond those that are kept.
    fn cleaned_up(&self) -> Option<Step> {
        let limit = self
            .deployment
            .spec
            .revision_history_limit
            .filter(|limit| *limit != UNLIMITED)?;
        let mut old: Vec<&ReplicaSet> = self.old.clone();
        old.retain(|set| set.metadata.deletion_timestamp.is_none());
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|set| revision_of(set));
        let is_idle = |set: &&ReplicaSet| set.status.replicas == 0 && set.spec.replicas == 0 && is_seen(set);
        let doomed = old.into_iter().take(excess).filter(is_idle);
        let doomed: Vec<ObjectMeta> = doomed.map(|set| set.metadata.clone()).collect();
        (!doomed.is_empty()).then_some(Step::Delete(doomed))
    }
}

#[cfg(test)]
mod tests;
