use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Value, json};

use super::*;
use crate::deployment::bounds::Bounds;
use crate::deployment::naming::has_template;
use crate::deployment::status::status_after_creation;

const NOW: &str = "2026-01-01T00:00:00Z";

/// A Deployment with its ReplicaSets and Pods, and a model of the ReplicaSet controller that takes one action
/// at a time.
struct Model {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    /// Availability of each Pod, by the name of its ReplicaSet.
    pods: BTreeMap<String, Vec<bool>>,
    events: Vec<String>,
    now: Timestamp,
}

impl Model {
    fn new(replicas: i64, strategy: Value) -> Self {
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 1}},
            },
        });
        Self {
            deployment: serde_json::from_value(deployment).expect("a Deployment"),
            sets: Vec::new(),
            pods: BTreeMap::new(),
            events: Vec::new(),
            now: NOW.parse().expect("a time"),
        }
    }

    fn rolling(replicas: i64, surge: Value, unavailable: Value) -> Self {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        Self::new(
            replicas,
            json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
        )
    }

    fn change(&mut self, change: impl FnOnce(&mut api::object::DeploymentSpec)) {
        change(&mut self.deployment.spec);
        self.deployment.metadata.generation += 1;
    }

    fn set_image(&mut self, image: i64) {
        self.change(|spec| spec.template["spec"]["image"] = image.into());
    }

    fn decision(&self) -> Decision {
        reconcile(&Inputs {
            deployment: &self.deployment,
            sets: &self.sets.iter().collect::<Vec<_>>(),
            old_pods: OldPodsState::Gone,
            now: self.now,
        })
    }

    /// Runs a step of the Deployment controller; returns true if there was one.
    fn step(&mut self) -> bool {
        match self.decision().step {
            None => return false,
            Some(Step::ChangeOwners(_) | Step::ListOldPods(_)) => {
                panic!("nothing to adopt, to release or to look for")
            }
            Some(Step::Create(new)) => self.create(&new),
            Some(Step::Change(changes)) => changes.iter().for_each(|change| self.patch_replica_set(change)),
            Some(Step::Delete(excess_sets)) => {
                self.sets
                    .retain(|set| !excess_sets.iter().any(|meta| meta.name == set.metadata.name));
            }
            Some(Step::UpdateStatus(update)) => {
                self.deployment.status = update.status;
                if let Some(revision) = update.revision {
                    let annotations = &mut self.deployment.metadata.annotations;
                    annotations.insert(crate::deployment::REVISION.to_owned(), revision.to_string());
                }
            }
        }
        true
    }

    fn create(&mut self, new: &NewReplicaSet) {
        let mut set: ReplicaSet = serde_json::from_value(new.object.clone()).expect("a ReplicaSet");
        set.metadata.uid = new.name.clone();
        set.metadata.generation = 1;
        set.metadata.creation_timestamp = Some(format!("2026-01-01T00:00:{:02}Z", self.sets.len()));
        if new.replicas > 0 {
            self.events.push(format!("new 0 to {}", new.replicas));
        }
        let update = status_after_creation(&self.deployment, Some(new.revision), &new.name, None, self.now);
        self.deployment.status = update.status;
        self.sets.push(set);
    }

    fn patch_replica_set(&mut self, change: &ReplicaSetChange) {
        let newest = self.newest();
        let set = self
            .sets
            .iter_mut()
            .find(|set| set.metadata.name == change.meta.name);
        let set = set.expect("a ReplicaSet that is there");
        if let Some((before, after)) = change.replicas {
            let which = if newest.as_ref() == Some(&set.metadata.name) {
                "new"
            } else {
                "old"
            };
            self.events.push(format!("{which} {before} to {after}"));
            set.spec.replicas = after;
            set.metadata.generation += 1;
        }
        set.metadata.annotations.extend(change.annotations.clone());
    }

    fn newest(&self) -> Option<String> {
        let template = &self.deployment.spec.template;
        let newest = self.sets.iter().find(|set| has_template(set, template));
        newest.map(|set| set.metadata.name.clone())
    }

    /// Creates or deletes one Pod of a ReplicaSet; returns true if one was missing or surplus.
    fn move_pod(&mut self, set: usize) -> bool {
        let set = &self.sets[set];
        let pods = self.pods.entry(set.metadata.name.clone()).or_default();
        let desired = usize::try_from(set.spec.replicas).expect("not negative");
        if pods.len() < desired {
            pods.push(false);
        } else if pods.len() > desired {
            let at = pods.iter().position(|is_available| !is_available).unwrap_or(0);
            pods.remove(at);
        } else {
            return false;
        }
        true
    }

    /// Updates the status of a ReplicaSet; returns true if it changed.
    fn update_status(&mut self, set: usize) -> bool {
        let set = &mut self.sets[set];
        let pods = self.pods.entry(set.metadata.name.clone()).or_default();
        let count = |count: usize| i64::try_from(count).expect("few");
        let available = count(pods.iter().filter(|is_available| **is_available).count());
        let mut status = set.status.clone();
        status.observed_generation = set.metadata.generation;
        status.replicas = count(pods.len());
        (status.ready_replicas, status.available_replicas) = (available, available);
        let is_missing = status != set.status;
        set.status = status;
        is_missing
    }

    /// Makes a Pod available; returns true if one was not. A surplus Pod does not become available, because
    /// it is about to be deleted.
    fn ready(&mut self, set: usize) -> bool {
        let desired = usize::try_from(self.sets[set].spec.replicas).expect("not negative");
        let pods = self.pods.entry(self.sets[set].metadata.name.clone()).or_default();
        if pods.len() > desired {
            return false;
        }
        let waiting = pods.iter_mut().find(|is_available| !**is_available);
        waiting.map(|is_available| *is_available = true).is_some()
    }

    /// Runs all actions until none is left.
    fn reconcile_until_idle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = self.step();
            for set in 0..self.sets.len() {
                moved |= self.move_pod(set) | self.update_status(set) | self.ready(set);
            }
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.decision());
    }

    fn total(&self) -> usize {
        self.pods.values().map(Vec::len).sum()
    }

    fn available(&self) -> usize {
        self.pods
            .values()
            .flatten()
            .filter(|is_available| **is_available)
            .count()
    }

    /// Asserts that exactly the desired Pods exist, all of the newest template.
    fn assert_done(&self, context: &str) {
        let newest = self
            .newest()
            .unwrap_or_else(|| panic!("{context}: no ReplicaSet"));
        let desired = usize::try_from(self.deployment.spec.replicas).expect("not negative");
        assert_eq!(self.total(), desired, "{context}");
        assert_eq!(self.pods.get(&newest).map_or(0, Vec::len), desired, "{context}");
        let status = &self.deployment.status;
        assert_eq!(
            status.updated_replicas, self.deployment.spec.replicas,
            "{context}"
        );
        assert_eq!(
            status.observed_generation, self.deployment.metadata.generation,
            "{context}"
        );
        assert_eq!(self.reason("Progressing"), "NewReplicaSetAvailable", "{context}");
    }

    fn reason(&self, kind: &str) -> &str {
        let conditions = &self.deployment.status.conditions;
        conditions
            .iter()
            .find(|condition| condition.kind == kind)
            .map_or("", |condition| &condition.reason)
    }

    fn revision(&self) -> &str {
        &self.deployment.metadata.annotations[crate::deployment::REVISION]
    }
}

#[test]
fn new_deployment_gets_its_pods() {
    let mut model = Model::rolling(3, json!("25%"), json!("25%"));
    model.reconcile_until_idle();
    model.assert_done("new");
    assert_eq!(model.events, ["new 0 to 3"]);
    assert_eq!(model.revision(), "1");
    assert_eq!(model.reason("Available"), "MinimumReplicasAvailable");
    let set = &model.sets[0];
    assert_eq!(
        set.metadata.annotations["deployment.kubernetes.io/desired-replicas"],
        "3"
    );
    assert_eq!(
        set.metadata.annotations["deployment.kubernetes.io/max-replicas"],
        "4"
    );
    assert_eq!(
        set.spec.selector["matchLabels"]["pod-template-hash"],
        set.metadata.labels["pod-template-hash"]
    );
}

#[test]
fn rolling_updates_respect_their_bounds() {
    let mut model = Model::rolling(3, json!(1), json!(0));
    model.reconcile_until_idle();
    model.events.clear();
    model.set_image(2);
    model.reconcile_until_idle();
    model.assert_done("rolled");
    assert_eq!(
        model.events,
        [
            "new 0 to 1",
            "old 3 to 2",
            "new 1 to 2",
            "old 2 to 1",
            "new 2 to 3",
            "old 1 to 0"
        ]
    );
    assert_eq!(model.revision(), "2");
}

#[test]
fn rollbacks_reuse_the_old_replica_set_with_a_new_revision() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.reconcile_until_idle();
    model.set_image(2);
    model.reconcile_until_idle();
    model.set_image(1);
    model.reconcile_until_idle();
    model.assert_done("back");
    assert_eq!((model.sets.len(), model.revision()), (2, "3"));
    let back = &model.sets[0].metadata.annotations;
    assert_eq!(back["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn recreate_stops_all_old_pods_first() {
    let mut model = Model::new(3, json!({"type": "Recreate"}));
    model.reconcile_until_idle();
    model.set_image(2);
    while model.sets.len() == 1 {
        let moved = model.step() | model.move_pod(0) | model.update_status(0);
        assert!(moved, "the rollout makes no progress");
    }
    assert_eq!(model.total(), 0);
    model.reconcile_until_idle();
    model.assert_done("recreated");
    assert_eq!(model.events, ["new 0 to 3", "old 3 to 0", "new 0 to 3"]);
}

#[test]
fn old_replica_sets_beyond_the_history_limit_are_deleted() {
    let mut model = Model::rolling(1, json!(1), json!(0));
    for image in 1..7 {
        model.set_image(image);
        model.reconcile_until_idle();
    }
    model.assert_done("rolled");
    assert_eq!((model.sets.len(), model.revision()), (3, "6"));
}

#[test]
fn paused_deployments_are_scaled_and_not_rolled_out() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.reconcile_until_idle();
    model.change(|spec| {
        spec.paused = true;
        spec.replicas = 4;
    });
    model.set_image(2);
    model.reconcile_until_idle();
    assert_eq!((model.sets.len(), model.total()), (1, 4));
    assert_eq!(model.reason("Progressing"), "DeploymentPaused");
    model.change(|spec| spec.paused = false);
    model.reconcile_until_idle();
    model.assert_done("resumed");
}

#[test]
fn scaling_during_a_rollout_is_proportional() {
    let mut model = Model::rolling(10, json!(3), json!(2));
    model.reconcile_until_idle();
    model.set_image(2);
    // The new Pods are not available, so the rollout stops at 8 and 5.
    for _ in 0..100 {
        model.step();
        for set in 0..model.sets.len() {
            while model.move_pod(set) {}
            model.update_status(set);
        }
    }
    let sizes = |model: &Model| model.sets.iter().map(|set| set.spec.replicas).collect::<Vec<_>>();
    assert_eq!(sizes(&model), [8, 5]);
    model.change(|spec| spec.replicas = 15);
    assert!(model.step());
    assert_eq!(sizes(&model), [11, 7]);
    model.reconcile_until_idle();
    model.assert_done("scaled");
}

#[test]
fn slow_rollouts_exceed_their_deadline_and_continue() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.reconcile_until_idle();
    model.set_image(2);
    for _ in 0..20 {
        model.step();
        for set in 0..model.sets.len() {
            while model.move_pod(set) {}
            model.update_status(set);
        }
    }
    let wait = model.decision().requeue_after.expect("a deadline");
    assert_eq!(wait, Duration::from_secs(601));
    model.now += jiff::SignedDuration::from_secs(601);
    assert!(model.step());
    assert_eq!(model.reason("Progressing"), "ProgressDeadlineExceeded");
    assert_eq!(model.decision(), Decision::default());
    model.reconcile_until_idle();
    model.assert_done("late");
}

#[test]
fn failures_of_replica_sets_are_reported() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.step();
    model.sets[0].status.conditions = vec![api::object::ProgressCondition {
        kind: "ReplicaFailure".to_owned(),
        status: "True".to_owned(),
        reason: "FailedCreate".to_owned(),
        ..Default::default()
    }];
    while model.step() {}
    assert_eq!(model.reason("ReplicaFailure"), "FailedCreate");
    model.sets[0].status.conditions.clear();
    model.reconcile_until_idle();
    assert_eq!(model.reason("ReplicaFailure"), "");
}

#[test]
fn orphans_are_adopted_and_non_matching_sets_released() {
    let mut model = Model::rolling(1, json!(1), json!(0));
    model.reconcile_until_idle();
    let mut orphan = model.sets[0].clone();
    orphan.metadata.owner_references.clear();
    orphan.metadata.name = "orphan".to_owned();
    let mut other_set = model.sets[0].clone();
    other_set.metadata.labels.clear();
    model.sets = vec![orphan, other_set];
    let Some(Step::ChangeOwners(changes)) = model.decision().step else {
        panic!("adoptions and releases are due");
    };
    assert_eq!(changes.len(), 2);
    assert!(changes[0].is_adoption && changes[0].owners[0].uid == "d");
    assert!(!changes[1].is_adoption && changes[1].owners.is_empty());
    model.deployment.metadata.deletion_timestamp = Some(NOW.to_owned());
    assert!(!matches!(model.decision().step, Some(Step::ChangeOwners(_))));
}

/// In any order of events the bounds hold, and finally only new Pods exist.
#[test]
fn bounds_hold_in_any_order_of_events() {
    for seed in 0..3_000 {
        let mut random = Rng::with_seed(seed);
        let replicas = random.i64(0..8);
        let surge = random.i64(0..4);
        let unavailable = random.i64(i64::from(surge == 0)..4);
        let mut model = Model::rolling(replicas, json!(surge), json!(unavailable));
        model.reconcile_until_idle();
        let bounds = Bounds::of(&model.deployment);
        let (most, fewest) = (bounds.total_max(), bounds.available_min());
        for _ in 0..random.usize(20..300) {
            let available = model.available();
            let set = random.usize(0..model.sets.len());
            match random.u8(0..10) {
                0..4 => drop(model.step()),
                4 | 5 => drop(model.move_pod(set)),
                6 => drop(model.update_status(set)),
                // The loss of availability is always observed before a Pod is given up.
                7 | 8 => drop(model.ready(set) && model.update_status(set)),
                _ if random.u8(0..8) == 0 => model.set_image(random.i64(1..4)),
                _ => {}
            }
            let (total, now) = (model.total() as i64, model.available() as i64);
            assert!(
                total <= most,
                "seed {seed}: {total} Pods, {most} may be: {:?}",
                model.events
            );
            assert!(
                now >= fewest || now >= available as i64,
                "seed {seed}: {now} available Pods, {fewest} must be: {:?}",
                model.events
            );
        }
        model.reconcile_until_idle();
        model.assert_done(&format!("seed {seed}"));
    }
}

/// With changes of the desired Pods in between, the rollout ends with the last number.
#[test]
fn rollout_reaches_the_last_desired_state() {
    for seed in 0..2_000 {
        let mut random = Rng::with_seed(seed);
        let strategy = match random.u8(0..4) {
            0 => json!({"type": "Recreate"}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": format!("{}%", random.u8(0..120)), "maxUnavailable": format!("{}%", random.u8(1..100))}}),
        };
        let mut model = Model::new(random.i64(0..12), strategy);
        for _ in 0..random.usize(5..200) {
            if model.sets.is_empty() {
                model.step();
                continue;
            }
            let set = random.usize(0..model.sets.len());
            match random.u8(0..24) {
                0..10 => drop(model.step()),
                10..14 => drop(model.move_pod(set)),
                14..17 => drop(model.update_status(set)),
                17..21 => drop(model.ready(set)),
                21 => model.set_image(random.i64(1..4)),
                22 => model.change(|spec| spec.replicas = random.i64(0..12)),
                _ => model.change(|spec| spec.paused = !spec.paused),
            }
        }
        model.change(|spec| spec.paused = false);
        model.reconcile_until_idle();
        model.assert_done(&format!("seed {seed}: {:?}", model.events));
    }
}
