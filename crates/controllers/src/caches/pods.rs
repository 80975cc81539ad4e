//! Pods by key and by label, reduced to the fields that the endpoint controllers read.

use std::collections::HashMap;
use std::sync::Arc;

use api::object::{Container, Labels, ObjectKey, Pod, PodStatus, Protocol, TargetRef};

use super::compact_set::CompactSet;
use super::interner::{Interner, LabelSet};
use super::keyed_set::{Keyed, KeyedSet};
use super::time::Time;

/// The fields of a Pod that the endpoint controllers read. There may be hundreds of thousands of Pods, so
/// common values are shared.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// Reference to the Pod. The endpoints of the Pod share it.
    pub target: Arc<TargetRef>,
    /// Labels, which Service selectors match.
    pub labels: LabelSet,
    /// Name of the Node; empty if the Pod has none.
    pub node_name: Arc<str>,
    /// DNS name of the Pod, if it has one of its own.
    pub host: Option<Box<Host>>,
    /// Valid IP addresses in canonical form, in the order of the Pod.
    pub addresses: Box<[Arc<str>]>,
    /// Named container ports; those of restartable init containers come last (EPC-06).
    pub ports: Arc<[NamedPort]>,
    /// Last transition of the condition Ready.
    pub ready_since: Option<Time>,
    /// True if the condition Ready is true.
    pub is_ready: bool,
    /// True if the Pod has succeeded or failed.
    pub is_finished: bool,
    /// True if the Pod has a deletion timestamp.
    pub is_terminating: bool,
}

/// DNS name of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `spec.hostname`.
    pub name: Arc<str>,
    /// `spec.subdomain`: the name of a headless Service.
    pub subdomain: String,
}

/// A named container port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPort {
    /// Port name, unique in its Pod.
    pub name: Box<str>,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Container port.
    pub number: u16,
}

impl PodFacts {
    /// Extracts the facts of `pod`.
    pub fn of(pod: &Pod, interner: &mut Interner) -> Self {
        let (spec, status) = (&pod.spec, &pod.status);
        let condition = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
        let since = condition("Ready").and_then(|ready| ready.last_transition_time.as_deref());
        let host = Host {
            name: spec.hostname.as_str().into(),
            subdomain: spec.subdomain.clone(),
        };
        Self {
            target: Arc::new(TargetRef {
                kind: interner.text("Pod"),
                namespace: interner.text(&pod.metadata.namespace),
                name: pod.metadata.name.as_str().into(),
                uid: pod.metadata.uid.as_str().into(),
            }),
            labels: interner.labels(&pod.metadata.labels),
            node_name: interner.text(&spec.node_name),
            host: (!host.name.is_empty()).then(|| Box::new(host)),
            addresses: addresses_of(status),
            ports: interner.ports(ports_of(pod)),
            ready_since: since.and_then(Time::parse),
            is_ready: pod.is_ready(),
            is_finished: pod.is_finished(),
            is_terminating: pod.is_terminating(),
        }
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.target.namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.target.name
    }

    /// Returns namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: Arc::clone(self.namespace()),
            name: Arc::clone(self.name()),
        }
    }

    /// Returns true if both Pods result in the same endpoint (EPS-24).
    pub fn is_same_endpoint(&self, other: &Self) -> bool {
        self.target.uid == other.target.uid
            && self.labels == other.labels
            && self.node_name == other.node_name
            && self.host == other.host
            && self.addresses == other.addresses
            && self.ports == other.ports
            && self.is_ready == other.is_ready
            && self.is_finished == other.is_finished
            && self.is_terminating == other.is_terminating
    }
}

impl Keyed for PodFacts {
    fn key_texts(&self) -> (&str, &str) {
        (self.namespace(), self.name())
    }
}

/// Returns the addresses in canonical form, the only one that the API server accepts in slices.
fn addresses_of(status: &PodStatus) -> Box<[Arc<str>]> {
    let canonical = |text: &str| {
        text.parse::<std::net::IpAddr>()
            .ok()
            .map(|ip| ip.to_string().into())
    };
    if status.pod_ips.is_empty() {
        return canonical(&status.pod_ip).into_iter().collect();
    }
    let all = status.pod_ips.iter().map(|address| address.ip.as_str());
    all.filter_map(canonical).collect()
}

fn ports_of(pod: &Pod) -> Vec<NamedPort> {
    let restartable = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let restartable = pod.spec.init_containers.iter().filter(restartable);
    let containers = pod.spec.containers.iter().chain(restartable);
    let ports = containers.flat_map(|container| &container.ports);
    let named = ports.filter(|port| !port.name.is_empty());
    named
        .map(|port| NamedPort {
            name: port.name.as_str().into(),
            protocol: port.protocol,
            number: port.container_port,
        })
        .collect()
}

/// A label within a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NamespacedLabel {
    pub(super) namespace: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) value: Arc<str>,
}

/// A cache of Pods with an index by the labels that selectors use.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    by_key: KeyedSet<PodFacts>,
    /// Names of Pods by label, for the label keys that selectors use.
    by_label: HashMap<NamespacedLabel, CompactSet<Arc<str>>>,
    /// Label keys that selectors of a namespace use, with the number of selectors.
    selected_keys: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
}

/// Label keys of one selector that are indexed: the first ones. The others are compared with the Pods that the rarest
/// of these labels selects. Each further key costs a scan of the Pods of the namespace, and a selector has room for
/// ten thousands.
pub(super) const INDEXED_KEYS_MAX: usize = 4;

impl Pods {
    /// Adds or replaces a Pod; returns the previous one.
    pub(crate) fn insert(&mut self, pod: PodFacts) -> Option<PodFacts> {
        let before = self.by_key.named(pod.namespace(), pod.name());
        if before.is_some_and(|before| before.labels == pod.labels) {
            return self.by_key.insert(pod);
        }
        let before = self.by_key.remove(&pod.key());
        if let Some(before) = &before {
            self.remove_labels(before);
        }
        self.add_labels(&pod);
        self.by_key.insert(pod);
        before
    }

    /// Removes and returns a Pod.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<PodFacts> {
        let pod = self.by_key.remove(key)?;
        self.remove_labels(&pod);
        Some(pod)
    }

    /// Returns the Pod with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&PodFacts> {
        self.by_key.get(key)
    }

    /// Iterates over all Pods.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PodFacts> {
        self.by_key.iter()
    }

    /// Counts a selector of the namespace that uses this label key, and indexes the Pods of the namespace by it.
    pub(super) fn add_selector_key(&mut self, namespace: &Arc<str>, label_key: &Arc<str>) {
        let keys = self.selected_keys.entry(Arc::clone(namespace)).or_default();
        let count = keys.entry(Arc::clone(label_key)).or_default();
        *count += 1;
        if *count > 1 {
            return;
        }
        for pod in self.by_key.in_namespace(namespace) {
            if let Some(label) = label_with_key(pod, label_key) {
                self.by_label
                    .entry(label)
                    .or_default()
                    .insert(Arc::clone(pod.name()));
            }
        }
    }

    /// Counts the removal of a selector of the namespace that used this label key.
    pub(super) fn remove_selector_key(&mut self, namespace: &Arc<str>, label_key: &Arc<str>) {
        let Some(keys) = self.selected_keys.get_mut(namespace) else {
            return;
        };
        let Some(count) = keys.get_mut(label_key) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        keys.remove(label_key);
        if keys.is_empty() {
            self.selected_keys.remove(namespace);
        }
        for pod in self.by_key.in_namespace(namespace) {
            if let Some(label) = label_with_key(pod, label_key) {
                self.by_label.remove(&label);
            }
        }
    }

    /// Returns the Pods of a namespace that match a selector, sorted by name. An empty selector, or one whose first
    /// keys are not indexed, matches none.
    pub(crate) fn matching(&self, namespace: &str, selector: &Labels) -> Vec<&PodFacts> {
        let entry_of = |(key, value): (&String, &String)| {
            let label = NamespacedLabel {
                namespace: namespace.into(),
                key: key.as_str().into(),
                value: value.as_str().into(),
            };
            self.by_label.get_key_value(&label)
        };
        let rarest = selector
            .iter()
            .take(INDEXED_KEYS_MAX)
            .map(entry_of)
            .min_by_key(|entry| entry.map_or(0, |(_, names)| names.len()));
        let Some(Some((label, names))) = rarest else {
            return Vec::new();
        };
        names
            .iter()
            .filter_map(|name| self.by_key.named(&label.namespace, name))
            .filter(|pod| pod.labels.is_selected_by(selector))
            .collect()
    }

    /// Adds a Pod to the index, under the labels whose keys selectors use.
    fn add_labels(&mut self, pod: &PodFacts) {
        let Some(keys) = self.selected_keys.get(pod.namespace()) else {
            return;
        };
        for label in labels_of(pod).filter(|label| keys.contains_key(&label.key)) {
            self.by_label
                .entry(label)
                .or_default()
                .insert(Arc::clone(pod.name()));
        }
    }

    /// Removes a Pod from the index.
    fn remove_labels(&mut self, pod: &PodFacts) {
        for label in labels_of(pod) {
            if let Some(names) = self.by_label.get_mut(&label) {
                names.remove(pod.name());
                if names.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
    }
}

/// Returns the label of a Pod with this key.
fn label_with_key(pod: &PodFacts, label_key: &str) -> Option<NamespacedLabel> {
    let (key, value) = pod.labels.label(label_key)?;
    Some(NamespacedLabel {
        namespace: Arc::clone(pod.namespace()),
        key: Arc::clone(key),
        value: Arc::clone(value),
    })
}

/// Iterates over the labels of a Pod.
fn labels_of(pod: &PodFacts) -> impl Iterator<Item = NamespacedLabel> {
    pod.labels.iter().map(|(key, value)| NamespacedLabel {
        namespace: Arc::clone(pod.namespace()),
        key: Arc::clone(key),
        value: Arc::clone(value),
    })
}

#[cfg(test)]
mod tests;
