use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;
use crate::deployment::status::said_of_creation;

const NOW: &str = "2026-01-01T00:00:00Z";

/// A Deployment with its ReplicaSets and their Pods, and what a controller of ReplicaSets does, one thing at a time.
struct Model {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    /// Of each ReplicaSet by name: for each of its Pods whether it is available.
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

    fn outcome(&self) -> Outcome {
        reconcile(&Inputs {
            deployment: &self.deployment,
            sets: &self.sets.iter().collect::<Vec<_>>(),
            old_pods: OldPods::Gone,
            now: self.now,
        })
    }

    /// The controller of Deployments takes a step; whether there was one.
    fn step(&mut self) -> bool {
        match self.outcome().step {
            None => return false,
            Some(Step::Claim(_) | Step::LookForOldPods(_)) => panic!("nothing to claim or to look for"),
            Some(Step::Create(new)) => self.create(&new),
            Some(Step::Change(changes)) => changes.iter().for_each(|change| self.change_set(change)),
            Some(Step::Delete(doomed)) => {
                self.sets
                    .retain(|set| !doomed.iter().any(|meta| meta.name == set.metadata.name));
            }
            Some(Step::Say(said)) => {
                self.deployment.status = said.status;
                if let Some(revision) = said.revision {
                    let annotations = &mut self.deployment.metadata.annotations;
                    annotations.insert(crate::deployment::REVISION.to_owned(), revision.to_string());
                }
            }
        }
        true
    }

    fn create(&mut self, new: &NewSet) {
        let mut set: ReplicaSet = serde_json::from_value(new.object.clone()).expect("a ReplicaSet");
        set.metadata.uid = new.name.clone();
        set.metadata.generation = 1;
        set.metadata.creation_timestamp = Some(format!("2026-01-01T00:00:{:02}Z", self.sets.len()));
        if new.replicas > 0 {
            self.events.push(format!("new 0 to {}", new.replicas));
        }
        let said = said_of_creation(&self.deployment, Some(new.revision), &new.name, None, self.now);
        self.deployment.status = said.status;
        self.sets.push(set);
    }

    fn change_set(&mut self, change: &SetChange) {
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
        let newest = self.sets.iter().find(|set| is_of(set, template));
        newest.map(|set| set.metadata.name.clone())
    }

    /// The controller of ReplicaSets creates or deletes one Pod; whether there was something to do.
    fn move_pod(&mut self, set: usize) -> bool {
        let set = &self.sets[set];
        let pods = self.pods.entry(set.metadata.name.clone()).or_default();
        let wanted = usize::try_from(set.spec.replicas).expect("not negative");
        if pods.len() < wanted {
            pods.push(false);
        } else if pods.len() > wanted {
            let at = pods.iter().position(|is_available| !is_available).unwrap_or(0);
            pods.remove(at);
        } else {
            return false;
        }
        true
    }

    /// It says how many Pods there are; whether that was news.
    fn say(&mut self, set: usize) -> bool {
        let set = &mut self.sets[set];
        let pods = self.pods.entry(set.metadata.name.clone()).or_default();
        let count = |count: usize| i64::try_from(count).expect("few");
        let available = count(pods.iter().filter(|is_available| **is_available).count());
        let mut status = set.status.clone();
        status.observed_generation = set.metadata.generation;
        status.replicas = count(pods.len());
        (status.ready_replicas, status.available_replicas) = (available, available);
        let is_news = status != set.status;
        set.status = status;
        is_news
    }

    /// A Pod becomes available; whether there was one that was not. One that is given up does not: it is about to go.
    fn ready(&mut self, set: usize) -> bool {
        let wanted = usize::try_from(self.sets[set].spec.replicas).expect("not negative");
        let pods = self.pods.entry(self.sets[set].metadata.name.clone()).or_default();
        if pods.len() > wanted {
            return false;
        }
        let waiting = pods.iter_mut().find(|is_available| !**is_available);
        waiting.map(|is_available| *is_available = true).is_some()
    }

    /// Everything happens until nothing does any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = self.step();
            for set in 0..self.sets.len() {
                moved |= self.move_pod(set) | self.say(set) | self.ready(set);
            }
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.outcome());
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

    /// Asserts that exactly the Pods that are wanted are there, all of the newest template.
    fn assert_done(&self, context: &str) {
        let newest = self
            .newest()
            .unwrap_or_else(|| panic!("{context}: no ReplicaSet"));
        let wanted = usize::try_from(self.deployment.spec.replicas).expect("not negative");
        assert_eq!(self.total(), wanted, "{context}");
        assert_eq!(self.pods.get(&newest).map_or(0, Vec::len), wanted, "{context}");
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
            .find(|c| c.kind == kind)
            .map_or("", |c| &c.reason)
    }

    fn revision(&self) -> &str {
        &self.deployment.metadata.annotations[crate::deployment::REVISION]
    }
}

#[test]
fn a_new_deployment_gets_its_pods() {
    let mut model = Model::rolling(3, json!("25%"), json!("25%"));
    model.settle();
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
fn a_rolling_update_goes_step_by_step() {
    let mut model = Model::rolling(3, json!(1), json!(0));
    model.settle();
    model.events.clear();
    model.set_image(2);
    model.settle();
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
fn going_back_takes_the_old_replica_set_with_a_new_number() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.settle();
    model.set_image(2);
    model.settle();
    model.set_image(1);
    model.settle();
    model.assert_done("back");
    assert_eq!((model.sets.len(), model.revision()), (2, "3"));
    let back = &model.sets[0].metadata.annotations;
    assert_eq!(back["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn recreating_ends_all_old_pods_first() {
    let mut model = Model::new(3, json!({"type": "Recreate"}));
    model.settle();
    model.set_image(2);
    while model.sets.len() == 1 {
        let moved = model.step() | model.move_pod(0) | model.say(0);
        assert!(moved, "it stands still");
    }
    assert_eq!(model.total(), 0);
    model.settle();
    model.assert_done("recreated");
    assert_eq!(model.events, ["new 0 to 3", "old 3 to 0", "new 0 to 3"]);
}

#[test]
fn no_more_history_is_kept_than_wanted() {
    let mut model = Model::rolling(1, json!(1), json!(0));
    for image in 1..7 {
        model.set_image(image);
        model.settle();
    }
    model.assert_done("rolled");
    assert_eq!((model.sets.len(), model.revision()), (3, "6"));
}

#[test]
fn a_paused_deployment_is_scaled_and_not_rolled_out() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.settle();
    model.change(|spec| {
        spec.paused = true;
        spec.replicas = 4;
    });
    model.set_image(2);
    model.settle();
    assert_eq!((model.sets.len(), model.total()), (1, 4));
    assert_eq!(model.reason("Progressing"), "DeploymentPaused");
    model.change(|spec| spec.paused = false);
    model.settle();
    model.assert_done("resumed");
}

#[test]
fn scaling_in_the_middle_shares_out_in_proportion() {
    let mut model = Model::rolling(10, json!(3), json!(2));
    model.settle();
    model.set_image(2);
    // The new Pods are not available, so the roll-out stands at 8 and 5.
    for _ in 0..100 {
        model.step();
        for set in 0..model.sets.len() {
            while model.move_pod(set) {}
            model.say(set);
        }
    }
    let sizes = |model: &Model| model.sets.iter().map(|set| set.spec.replicas).collect::<Vec<_>>();
    assert_eq!(sizes(&model), [8, 5]);
    model.change(|spec| spec.replicas = 15);
    assert!(model.step());
    assert_eq!(sizes(&model), [11, 7]);
    model.settle();
    model.assert_done("scaled");
}

#[test]
fn what_takes_too_long_says_so_and_goes_on() {
    let mut model = Model::rolling(2, json!(1), json!(0));
    model.settle();
    model.set_image(2);
    for _ in 0..20 {
        model.step();
        for set in 0..model.sets.len() {
            while model.move_pod(set) {}
            model.say(set);
        }
    }
    let wait = model.outcome().again_after.expect("a deadline");
    assert_eq!(wait, Duration::from_secs(601));
    model.now += jiff::SignedDuration::from_secs(601);
    assert!(model.step());
    assert_eq!(model.reason("Progressing"), "ProgressDeadlineExceeded");
    assert_eq!(model.outcome(), Outcome::default());
    model.settle();
    model.assert_done("late");
}

#[test]
fn a_replica_set_that_fails_is_told_of() {
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
    model.settle();
    assert_eq!(model.reason("ReplicaFailure"), "");
}

#[test]
fn orphans_are_adopted_and_strangers_let_go() {
    let mut model = Model::rolling(1, json!(1), json!(0));
    model.settle();
    let mut orphan = model.sets[0].clone();
    orphan.metadata.owner_references.clear();
    orphan.metadata.name = "orphan".to_owned();
    let mut stranger = model.sets[0].clone();
    stranger.metadata.labels.clear();
    model.sets = vec![orphan, stranger];
    let Some(Step::Claim(claims)) = model.outcome().step else {
        panic!("claims are due");
    };
    assert_eq!(claims.len(), 2);
    assert!(claims[0].is_adoption && claims[0].owners[0].uid == "d");
    assert!(!claims[1].is_adoption && claims[1].owners.is_empty());
    model.deployment.metadata.deletion_timestamp = Some(NOW.to_owned());
    assert!(!matches!(model.outcome().step, Some(Step::Claim(_))));
}

/// Whatever the order in which things happen: never too many Pods, never too few available ones because of the
/// roll-out, and at the end only new ones.
#[test]
fn no_order_of_events_breaks_the_bounds() {
    for seed in 0..3_000 {
        let mut random = Rng::with_seed(seed);
        let replicas = random.i64(0..8);
        let surge = random.i64(0..4);
        let unavailable = random.i64(i64::from(surge == 0)..4);
        let mut model = Model::rolling(replicas, json!(surge), json!(unavailable));
        model.settle();
        let bounds = Bounds::of(&model.deployment);
        let (most, fewest) = (bounds.total_max(), bounds.available_min());
        for _ in 0..random.usize(20..300) {
            let available = model.available();
            let set = random.usize(0..model.sets.len());
            match random.u8(0..10) {
                0..4 => drop(model.step()),
                4 | 5 => drop(model.move_pod(set)),
                6 => drop(model.say(set)),
                // Who is given up for not being available must not have become so unseen.
                7 | 8 => drop(model.ready(set) && model.say(set)),
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
        model.settle();
        model.assert_done(&format!("seed {seed}"));
    }
}

/// The same with other numbers of Pods meanwhile: it comes to rest at what is wanted.
#[test]
fn whatever_is_wanted_last_is_there_at_the_end() {
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
                14..17 => drop(model.say(set)),
                17..21 => drop(model.ready(set)),
                21 => model.set_image(random.i64(1..4)),
                22 => model.change(|spec| spec.replicas = random.i64(0..12)),
                _ => model.change(|spec| spec.paused = !spec.paused),
            }
        }
        model.change(|spec| spec.paused = false);
        model.settle();
        model.assert_done(&format!("seed {seed}: {:?}", model.events));
    }
}
