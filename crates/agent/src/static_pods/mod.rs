//! Static Pods: their manifests, their lifecycle, and their mirror Pods in the API.
//!
//! This file has the lifecycle: Pods to start, Pods to end, and orphaned mirror Pods. It has no I/O except reading the
//! manifests.

pub mod manifests;
pub(crate) mod mirror_pod;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::object::ObjectKey;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::settings::StaticPods as Settings;

use manifests::{Manifests, StaticPod};
use mirror_pod::MirrorPod;

/// Static Pods of a node.
#[derive(Default)]
pub(crate) struct StaticPods {
    manifests: Option<Manifests>,
    interval: Duration,
    next_scan: Option<Instant>,
    /// Pods of the current manifests by UID.
    desired: BTreeMap<String, StaticPod>,
    /// Pods that were started and have not ended, by UID.
    running: BTreeMap<String, StaticPod>,
    /// UIDs of running Pods that were reported as removed.
    ending: BTreeSet<String>,
    /// UIDs of the mirrored static Pods, by the key of the mirror Pod in the API.
    mirrors: BTreeMap<ObjectKey, String>,
}

impl StaticPods {
    /// Returns the static Pods of a node, of which none runs.
    pub(crate) fn new(settings: Option<&Settings>, node_name: &str) -> Self {
        Self {
            manifests: settings.map(|settings| Manifests::new(settings.path.clone(), node_name.to_owned())),
            interval: settings
                .map(|settings| settings.scan_interval)
                .unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Returns the time of the next scan; `None` without a source.
    pub(crate) fn next_scan(&self) -> Option<Instant> {
        self.manifests.as_ref()?;
        Some(self.next_scan.unwrap_or_else(Instant::now))
    }

    /// Scans the manifests.
    pub(crate) fn scan(&mut self) {
        if let Some(manifests) = &mut self.manifests {
            self.desired = manifests.scan();
            self.next_scan = Some(Instant::now() + self.interval);
        }
    }

    /// Returns the Pods to start. A changed Pod waits until its previous version has ended.
    pub(crate) fn startable(&self) -> Vec<StaticPod> {
        let is_free = |pod: &&StaticPod| !self.running.values().any(|running| running.key() == pod.key());
        self.desired.values().filter(is_free).cloned().collect()
    }

    /// Records the start of a Pod.
    pub(crate) fn mark_started(&mut self, pod: StaticPod) {
        self.running.insert(pod.pod.metadata.uid.clone(), pod);
    }

    /// Returns the running Pods whose manifest was removed, each once.
    pub(crate) fn take_removed(&mut self) -> Vec<StaticPod> {
        let is_removed = |uid: &String| !self.desired.contains_key(uid) && !self.ending.contains(uid);
        let removed: Vec<StaticPod> = self
            .running
            .iter()
            .filter(|(uid, _)| is_removed(uid))
            .map(|(_, pod)| pod.clone())
            .collect();
        self.ending
            .extend(removed.iter().map(|pod| pod.pod.metadata.uid.clone()));
        removed
    }

    /// Records the end of a Pod. Returns true if it is a static Pod.
    pub(crate) fn mark_ended(&mut self, uid: &str) -> bool {
        self.ending.remove(uid);
        self.running.remove(uid).is_some()
    }

    /// Returns the mirror Pod of a running static Pod.
    pub(crate) fn mirror_of(&self, uid: &str) -> Option<MirrorPod> {
        let pod = self.running.get(uid)?;
        Some(MirrorPod::new(pod, Timestamp::now()))
    }

    /// Returns true if a running or desired static Pod has the UID.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.running.contains_key(uid) || self.desired.contains_key(uid)
    }

    /// Records a mirror Pod of the API.
    pub(crate) fn mirror_seen(&mut self, key: ObjectKey, uid: &str) {
        self.notify_mirror(&key);
        self.mirrors.insert(key, uid.to_owned());
    }

    /// Records the deletion of a Pod from the API, which may be a mirror Pod.
    pub(crate) fn mirror_deleted(&mut self, key: &ObjectKey) {
        self.mirrors.remove(key);
        self.notify_mirror(key);
    }

    /// Returns the mirror Pods without a static Pod.
    pub(crate) fn orphaned_mirrors(&self) -> Vec<(ObjectKey, String)> {
        let is_orphan = |(_, uid): &(&ObjectKey, &String)| !self.contains(uid);
        let orphans = self.mirrors.iter().filter(is_orphan);
        orphans.map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }

    fn notify_mirror(&self, key: &ObjectKey) {
        for pod in self.running.values().filter(|pod| pod.key() == *key) {
            pod.mirror_changed.notify_one();
        }
    }
}
