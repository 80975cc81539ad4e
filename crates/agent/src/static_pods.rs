//! Which Pods of files run, which are to be started and which to be ended; and which mirrors nobody needs. No I/O but
//! the reading of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::object::ObjectKey;
use tokio::time::Instant;

use crate::manifests::{Manifests, StaticPod};
use crate::settings::StaticPods as Settings;

/// The static Pods of a node.
#[derive(Default)]
pub struct StaticPods {
    manifests: Option<Manifests>,
    interval: Duration,
    due: Option<Instant>,
    /// By UID.
    wanted: BTreeMap<String, StaticPod>,
    /// Those that were started and have not ended.
    running: BTreeMap<String, StaticPod>,
    /// Those of them that were asked to end.
    ending: BTreeSet<String>,
    /// The mirrors that the API has, and of whom.
    mirrors: BTreeMap<ObjectKey, String>,
}

impl StaticPods {
    /// Those of a node; it may have none.
    pub fn new(settings: Option<&Settings>, node_name: &str) -> Self {
        Self {
            manifests: settings.map(|settings| Manifests::new(settings.path.clone(), node_name.to_owned())),
            interval: settings
                .map(|settings| settings.scan_interval)
                .unwrap_or_default(),
            ..Self::default()
        }
    }

    /// When the files are to be looked at; never without any.
    pub fn due(&self) -> Option<Instant> {
        self.manifests.as_ref()?;
        Some(self.due.unwrap_or_else(Instant::now))
    }

    /// Looks at the files.
    pub fn scan(&mut self) {
        if let Some(manifests) = &mut self.manifests {
            self.wanted = manifests.scan();
            self.due = Some(Instant::now() + self.interval);
        }
    }

    /// Those that are to be started now: a changed one waits for its predecessor to end.
    pub fn to_start(&self) -> Vec<StaticPod> {
        let is_free = |pod: &&StaticPod| !self.running.values().any(|running| running.key() == pod.key());
        self.wanted.values().filter(is_free).cloned().collect()
    }

    /// A Pod was started.
    pub fn started(&mut self, pod: StaticPod) {
        self.running.insert(pod.pod.metadata.uid.clone(), pod);
    }

    /// Those that are to be ended now; each is named once.
    pub fn begin_to_end(&mut self) -> Vec<StaticPod> {
        let is_over = |uid: &String| !self.wanted.contains_key(uid) && !self.ending.contains(uid);
        let over: Vec<StaticPod> = self
            .running
            .iter()
            .filter(|(uid, _)| is_over(uid))
            .map(|(_, pod)| pod.clone())
            .collect();
        self.ending
            .extend(over.iter().map(|pod| pod.pod.metadata.uid.clone()));
        over
    }

    /// A Pod has ended; whether it was one of these.
    pub fn ended(&mut self, uid: &str) -> bool {
        self.ending.remove(uid);
        self.running.remove(uid).is_some()
    }

    /// Whether a Pod is one of these.
    pub fn has(&self, uid: &str) -> bool {
        self.running.contains_key(uid) || self.wanted.contains_key(uid)
    }

    /// The API has this mirror.
    pub fn mirror_seen(&mut self, key: ObjectKey, uid: &str) {
        self.nudge(&key);
        self.mirrors.insert(key, uid.to_owned());
    }

    /// The API has lost a Pod, which may have been a mirror.
    pub fn mirror_lost(&mut self, key: &ObjectKey) {
        self.mirrors.remove(key);
        self.nudge(key);
    }

    /// The mirrors of Pods that are not there, and whose place is nobody's.
    pub fn orphans(&self) -> Vec<(ObjectKey, String)> {
        let is_orphan = |(_, uid): &(&ObjectKey, &String)| !self.has(uid);
        let orphans = self.mirrors.iter().filter(is_orphan);
        orphans.map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }

    fn nudge(&self, key: &ObjectKey) {
        for pod in self.running.values().filter(|pod| pod.key() == *key) {
            pod.mirror_changed.notify_one();
        }
    }
}
