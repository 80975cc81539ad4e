//! A model of the API server and of agents for the tests of workloads. It applies steps, loses some of them, and runs
//! Pods.

use std::collections::{BTreeMap, BTreeSet};

use api::object::{ControllerRevision, Node, ObjectMeta};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::replica_set::ReplicaPod;
use crate::workload::{Decision, Inputs, Step, Workload, timestamp};

const NOW: &str = "2026-01-01T00:00:00Z";
/// Number of steps after which a model that still changes has a defect.
const STEPS_MAX: usize = 2_000;

/// One workload with its objects.
pub(crate) struct Model {
    pub(crate) workload: Value,
    pub(crate) pods: BTreeMap<String, Value>,
    pub(crate) revisions: BTreeMap<String, Value>,
    /// Names of revisions of other workloads.
    pub(crate) other_revisions: BTreeSet<String>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<String>,
    pub(crate) is_deleted: bool,
    created: u64,
}

impl Model {
    /// Creates a model of a workload named `web`.
    pub(crate) fn new(spec: Value) -> Self {
        let metadata = json!({"name": "web", "namespace": "n", "uid": "w", "generation": 1});
        Self {
            workload: json!({"metadata": metadata, "spec": spec, "status": {}}),
            pods: BTreeMap::new(),
            revisions: BTreeMap::new(),
            other_revisions: BTreeSet::new(),
            nodes: BTreeMap::new(),
            now: NOW.parse().expect("a time"),
            events: Vec::new(),
            is_deleted: false,
            created: 0,
        }
    }

    /// Adds a Node with these taints.
    pub(crate) fn add_node(&mut self, name: &str, taints: &Value) {
        let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
        self.nodes.insert(name.to_owned(), read(&node));
    }

    pub(crate) fn set_image(&mut self, image: u8) {
        self.workload["spec"]["template"]["spec"]["image"] = json!(image);
        self.begin_generation();
    }

    pub(crate) fn begin_generation(&mut self) {
        let generation = self.workload["metadata"]["generation"].as_i64().unwrap_or(0);
        self.workload["metadata"]["generation"] = json!(generation + 1);
    }

    pub(crate) fn decision<W: Workload>(&self) -> Decision {
        let workload: W = read(&self.workload);
        let pods: Vec<ReplicaPod> = self.pods.values().map(read).collect();
        let revisions: Vec<ControllerRevision> = self.revisions.values().map(read).collect();
        let own_names = self.revisions.keys();
        let revision_names: BTreeSet<&str> = own_names
            .chain(&self.other_revisions)
            .map(String::as_str)
            .collect();
        W::reconcile(&Inputs {
            workload: &workload,
            pods: &pods.iter().collect::<Vec<_>>(),
            revisions: &revisions.iter().collect::<Vec<_>>(),
            revision_names: &revision_names,
            nodes: &self.nodes,
            now: self.now,
        })
    }

    /// Reconciles until no step is left without the agents. Returns the steps.
    pub(crate) fn reconcile_until_idle<W: Workload>(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = self.decision::<W>().step {
            assert!(steps.len() < STEPS_MAX, "no end of steps: {step:?}");
            self.apply(step.clone(), None);
            steps.push(step);
        }
        steps
    }

    /// Runs controller and agents until no object changes any more.
    pub(crate) fn converge<W: Workload>(&mut self) {
        for _ in 0..STEPS_MAX {
            let steps = self.reconcile_until_idle::<W>();
            let waits = self.decision::<W>().requeue_after.is_some();
            if !self.run_agents(None) && steps.is_empty() && !waits {
                return;
            }
            self.now += SignedDuration::from_secs(60);
        }
        panic!("no convergence: {} {:?}", self.workload, self.pods);
    }

    /// Applies a step; with `random`, some of its writes can be lost.
    pub(crate) fn apply(&mut self, step: Step, mut random: Option<&mut Rng>) {
        let mut is_lost = || random.as_mut().is_some_and(|random| random.u8(0..4) == 0);
        match step {
            Step::ChangeOwners(changes) => {
                for change in changes {
                    if let Some(pod) = self.pods.get_mut(&change.meta.name) {
                        pod["metadata"]["ownerReferences"] = json!(change.owners);
                        if let Some(finalizers) = change.finalizers {
                            pod["metadata"]["finalizers"] = json!(finalizers);
                        }
                    }
                }
            }
            Step::CreateRevision(revision) if !is_lost() => {
                let mut object = json!(revision);
                object["metadata"]["uid"] = json!(revision.metadata.name);
                self.revisions.insert(revision.metadata.name.clone(), object);
            }
            Step::RenumberRevision(meta, number) if !is_lost() => {
                self.revisions.get_mut(&meta.name).expect("a revision")["revision"] = json!(number);
            }
            Step::DeleteRevisions(revisions) => revisions.iter().for_each(|meta| {
                self.revisions.remove(&meta.name);
            }),
            Step::Pods(changes) => {
                for meta in changes.delete.iter().filter(|_| !is_lost()) {
                    self.mark_deleted(&meta.name);
                }
                for pod in changes.create.into_iter().filter(|_| !is_lost()) {
                    self.create(pod);
                }
            }
            Step::ReleasePods(pods) => pods
                .iter()
                .filter(|_| !is_lost())
                .for_each(|meta| self.release(meta)),
            // The loss of only the deletion would leave a Pod that runs and does not count.
            Step::WithdrawPods(pods) => {
                for meta in pods.iter().filter(|_| !is_lost()) {
                    self.release(meta);
                    self.mark_deleted(&meta.name);
                }
            }
            Step::UpdateStatus(patch, events) if !is_lost() => {
                for (field, value) in patch["status"].as_object().expect("a status") {
                    let status = &mut self.workload["status"];
                    if value.is_null() {
                        status.as_object_mut().expect("a status").shift_remove(field);
                    } else if let (Some(fields), true) =
                        (value.as_object(), field == "uncountedTerminatedPods")
                    {
                        let kept = fields.iter().filter(|(_, value)| !value.is_null());
                        let kept: BTreeMap<_, _> = kept.collect();
                        status[field] = json!(kept);
                    } else {
                        status[field] = value.clone();
                    }
                }
                self.events
                    .extend(events.iter().map(|event| format!("{event:?}")));
            }
            Step::DeleteOwner => self.is_deleted = true,
            _ => {}
        }
    }

    fn create(&mut self, mut pod: Value) {
        self.created += 1;
        let metadata = &mut pod["metadata"];
        if let Some(prefix) = metadata["generateName"].as_str() {
            metadata["name"] = json!(format!("{prefix}{:05}", self.created));
        }
        metadata["uid"] = json!(format!("p{}", self.created));
        metadata["creationTimestamp"] = json!(timestamp(self.now));
        pod["status"] = json!({"phase": "Pending"});
        let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
        assert!(!self.pods.contains_key(&name), "{name} exists already");
        self.pods.insert(name, pod);
    }

    /// Requests the deletion of a Pod.
    pub(crate) fn mark_deleted(&mut self, name: &str) {
        let now = timestamp(self.now);
        if let Some(pod) = self.pods.get_mut(name) {
            pod["metadata"]["deletionTimestamp"] = json!(now);
        }
    }

    fn release(&mut self, meta: &ObjectMeta) {
        if let Some(pod) = self.pods.get_mut(&meta.name) {
            pod["metadata"]["finalizers"] = json!([]);
        }
    }

    /// Ends terminating Pods and runs pending ones; with `random` only some of them. Returns true if a Pod changed.
    pub(crate) fn run_agents(&mut self, mut random: Option<&mut Rng>) -> bool {
        let mut has_changed = false;
        let now = timestamp(self.now);
        let mut attends = || random.as_mut().is_none_or(|random| random.bool());
        self.pods.retain(|_, pod| {
            let metadata = &pod["metadata"];
            let is_ending = !metadata["deletionTimestamp"].is_null();
            let is_held = metadata["finalizers"]
                .as_array()
                .is_some_and(|all| !all.is_empty());
            let is_gone = is_ending && !is_held && attends();
            has_changed |= is_gone;
            !is_gone
        });
        for pod in self.pods.values_mut() {
            if pod["status"]["phase"] == "Pending"
                && pod["metadata"]["deletionTimestamp"].is_null()
                && attends()
            {
                let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
                pod["status"] = json!({"phase": "Running", "conditions": [ready]});
                has_changed = true;
            }
        }
        has_changed
    }

    /// Ends a Pod with a phase.
    pub(crate) fn end(&mut self, name: &str, phase: &str) {
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": timestamp(self.now)});
        let pod = self.pods.get_mut(name).expect("a Pod");
        pod["status"] = json!({"phase": phase, "conditions": [ready]});
    }

    /// Returns the name of a random Pod.
    pub(crate) fn any_pod(&self, random: &mut Rng) -> Option<String> {
        random.choice(self.pods.keys().cloned().collect::<Vec<_>>())
    }

    /// Returns a count of the status.
    pub(crate) fn counted(&self, field: &str) -> i64 {
        self.workload["status"][field].as_i64().unwrap_or(0)
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> T {
    T::deserialize(object).unwrap_or_else(|error| panic!("{object}: {error}"))
}
