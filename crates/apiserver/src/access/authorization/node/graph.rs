//! What the Pods of each node are and refer to, kept in step with the store, so that a request is decided by a look-up.
//!
//! An object is counted once for each Pod that refers to it. The counts grow with the Pods in the store alone, and with
//! at most [`REFERENCES_MAX`] for each of them.

use std::collections::HashMap;

use api::kind;
use api::pod::{config_map_names, is_mirror, secret_names, service_account_name};
use api::tree::{child, text};
use serde_json::Value;
use store::{EventKind, Index, StoreError, Watch};

/// References of one Pod that count: it has as many in a spec of some hundred KiB. What comes after them gives no right.
const REFERENCES_MAX: usize = 10_000;

/// The types of objects that a Pod leads its node to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Referent {
    /// The Pod itself.
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
}

/// An object that Pods of a node lead to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Destination {
    referent: Referent,
    namespace: Box<str>,
    name: Box<str>,
}

/// A Pod that runs on a node.
struct Bound {
    node: Box<str>,
    destinations: Vec<Destination>,
}

/// The relations between nodes and objects.
#[derive(Default)]
pub(super) struct Graph {
    /// By the Pod's key in the store.
    pods: HashMap<Box<str>, Bound>,
    /// By node, how many of its Pods lead to an object.
    nodes: HashMap<Box<str>, HashMap<Destination, usize>>,
    /// The changes of Pods that are not taken in yet; none before all Pods were read.
    watch: Option<Watch>,
}

impl Graph {
    /// Returns true if the object is a Pod of the node, or if one refers to it.
    pub(super) fn leads_to(&self, node: &str, referent: Referent, namespace: &str, name: &str) -> bool {
        let destination = Destination {
            referent,
            namespace: namespace.into(),
            name: name.into(),
        };
        self.nodes
            .get(node)
            .is_some_and(|counts| counts.contains_key(&destination))
    }

    /// Returns true once the Pods are read. A cluster without agents needs no graph.
    pub(super) fn is_in_use(&self) -> bool {
        self.watch.is_some()
    }

    /// Takes in what has changed since the last time. What cannot be read gives no right.
    pub(super) fn refresh(&mut self, index: &Index) {
        let Some(pods) = kind::find("", "v1", "pods") else {
            return;
        };
        let prefix = pods.store_prefix(None);
        if let Err(error) = self.try_refresh(index, &prefix) {
            tracing::error!(%error, "the Pods of nodes could not be read; they give their nodes no rights now");
            *self = Graph::default();
        }
    }

    fn try_refresh(&mut self, index: &Index, prefix: &str) -> Result<(), StoreError> {
        let Some(mut watch) = self.watch.take() else {
            return self.read_all(index, prefix);
        };
        loop {
            match watch.try_next() {
                Ok(Some(event)) if event.kind == EventKind::Deleted => self.remove(&event.key),
                Ok(Some(event)) => self.put(&event.key, &event.value),
                Ok(None) => {
                    self.watch = Some(watch);
                    return Ok(());
                }
                Err(StoreError::Lagged { .. }) => return self.read_all(index, prefix),
                Err(other) => return Err(other),
            }
        }
    }

    fn read_all(&mut self, index: &Index, prefix: &str) -> Result<(), StoreError> {
        *self = Graph::default();
        let listing = index.list(prefix, None, None, None)?;
        for entry in &listing.entries {
            self.put(&entry.key, &entry.value);
        }
        self.watch = Some(index.watch(prefix, listing.revision)?);
        Ok(())
    }

    /// Takes in a Pod in place of what it was before.
    pub(super) fn put(&mut self, key: &str, value: &[u8]) {
        self.remove(key);
        match serde_json::from_slice::<Value>(value) {
            Ok(pod) => self.add(key, &pod),
            Err(error) => tracing::error!(key, %error, "a Pod cannot be read and gives its node no rights"),
        }
    }

    fn add(&mut self, key: &str, pod: &Value) {
        let node = text(child(pod, "spec"), "nodeName");
        if node.is_empty() {
            return;
        }
        let destinations = destinations(pod);
        let counts = self.nodes.entry(node.into()).or_default();
        for destination in &destinations {
            *counts.entry(destination.clone()).or_default() += 1;
        }
        let bound = Bound {
            node: node.into(),
            destinations,
        };
        self.pods.insert(key.into(), bound);
    }

    /// Forgets a Pod.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(bound) = self.pods.remove(key) else {
            return;
        };
        let Some(counts) = self.nodes.get_mut(&bound.node) else {
            return;
        };
        for destination in &bound.destinations {
            if let Some(count) = counts.get_mut(destination) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(destination);
                }
            }
        }
        if counts.is_empty() {
            self.nodes.remove(&bound.node);
        }
    }
}

/// The Pod itself and, unless it is a mirror, what it refers to. A node creates mirrors by itself: they must give it no
/// rights, whatever got past admission.
fn destinations(pod: &Value) -> Vec<Destination> {
    let (metadata, spec) = (child(pod, "metadata"), child(pod, "spec"));
    let namespace = text(metadata, "namespace");
    let to = |referent, name: &str| Destination {
        referent,
        namespace: namespace.into(),
        name: name.into(),
    };
    let mut destinations = vec![to(Referent::Pod, text(metadata, "name"))];
    if is_mirror(pod) {
        return destinations;
    }
    let account = Some(service_account_name(spec)).filter(|name| !name.is_empty());
    destinations.extend(account.map(|name| to(Referent::ServiceAccount, name)));
    destinations.extend(
        secret_names(spec)
            .into_iter()
            .map(|name| to(Referent::Secret, name)),
    );
    let config_maps = config_map_names(spec).into_iter();
    destinations.extend(config_maps.map(|name| to(Referent::ConfigMap, name)));
    if destinations.len() > REFERENCES_MAX {
        tracing::warn!(
            namespace,
            pod = text(metadata, "name"),
            references = destinations.len(),
            references_max = REFERENCES_MAX,
            "a Pod refers to more objects than its node is allowed to read"
        );
        destinations.truncate(REFERENCES_MAX);
    }
    destinations
}
