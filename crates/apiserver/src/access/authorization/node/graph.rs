//! Graph of nodes, their Pods and the objects that these Pods reference. It follows the store, so that a decision is
//! a map look-up.
//!
//! An object is counted once for each Pod that references it. The number of Pods and [`REFERENCES_MAX`] bound the
//! size.

use std::collections::HashMap;

use api::kind;
use api::pod::{config_map_names, is_mirror, secret_names, service_account_name};
use api::tree::{child, text};
use serde_json::Value;
use store::{EventKind, Index, StoreError, Watch};

/// Maximum number of references of one Pod that grant rights. A Pod spec of some 100 KiB reaches it.
const REFERENCES_MAX: usize = 10_000;

/// Types of objects that relate to a node through its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ObjectType {
    /// The Pod itself.
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
}

/// An object that Pods of a node reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RelatedObject {
    object_type: ObjectType,
    namespace: Box<str>,
    name: Box<str>,
}

/// A Pod that runs on a node.
struct BoundPod {
    node: Box<str>,
    /// The Pod itself and the objects that it references.
    related_objects: Vec<RelatedObject>,
}

/// Relations between nodes and objects.
#[derive(Default)]
pub(super) struct Graph {
    /// Bound Pods, by store key.
    pods: HashMap<Box<str>, BoundPod>,
    /// Number of Pods that reference an object, by node and object.
    nodes: HashMap<Box<str>, HashMap<RelatedObject, usize>>,
    /// Watch on Pods since the last refresh; `None` before the first list.
    watch: Option<Watch>,
}

impl Graph {
    /// Returns true if the object is a Pod of the node, or if a Pod of the node references it.
    pub(super) fn is_related(
        &self,
        node: &str,
        object_type: ObjectType,
        namespace: &str,
        name: &str,
    ) -> bool {
        let object = RelatedObject {
            object_type,
            namespace: namespace.into(),
            name: name.into(),
        };
        self.nodes
            .get(node)
            .is_some_and(|counts| counts.contains_key(&object))
    }

    /// Returns true once Pods have been listed. A cluster without agents does not need the graph.
    pub(super) fn is_loaded(&self) -> bool {
        self.watch.is_some()
    }

    /// Applies Pod changes since the last call. If the Pods cannot be read, nodes have no rights through Pods.
    pub(super) fn refresh(&mut self, index: &Index) {
        let Some(pods) = kind::find("", "v1", "pods") else {
            return;
        };
        let prefix = pods.store_prefix(None);
        if let Err(error) = self.try_refresh(index, &prefix) {
            tracing::error!(%error, "Pods not read; nodes have no rights through their Pods");
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

    /// Adds or replaces a Pod. A malformed Pod grants no rights.
    pub(super) fn put(&mut self, key: &str, value: &[u8]) {
        self.remove(key);
        match serde_json::from_slice::<Value>(value) {
            Ok(pod) => self.add(key, &pod),
            Err(error) => {
                tracing::error!(key, %error, "malformed stored Pod; it grants its node no rights")
            }
        }
    }

    fn add(&mut self, key: &str, pod: &Value) {
        let node = text(child(pod, "spec"), "nodeName");
        if node.is_empty() {
            return;
        }
        let related_objects = related_objects(pod);
        let counts = self.nodes.entry(node.into()).or_default();
        for object in &related_objects {
            *counts.entry(object.clone()).or_default() += 1;
        }
        let bound = BoundPod {
            node: node.into(),
            related_objects,
        };
        self.pods.insert(key.into(), bound);
    }

    /// Removes a Pod.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(bound) = self.pods.remove(key) else {
            return;
        };
        let Some(counts) = self.nodes.get_mut(&bound.node) else {
            return;
        };
        for object in &bound.related_objects {
            if let Some(count) = counts.get_mut(object) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(object);
                }
            }
        }
        if counts.is_empty() {
            self.nodes.remove(&bound.node);
        }
    }
}

/// Returns the Pod itself and, unless it is a mirror Pod, the objects that it references. A node creates its mirror
/// Pods, so mirror Pods grant no rights to references, also to references that admission did not reject.
fn related_objects(pod: &Value) -> Vec<RelatedObject> {
    let (metadata, spec) = (child(pod, "metadata"), child(pod, "spec"));
    let namespace = text(metadata, "namespace");
    let related = |object_type, name: &str| RelatedObject {
        object_type,
        namespace: namespace.into(),
        name: name.into(),
    };
    let mut related_objects = vec![related(ObjectType::Pod, text(metadata, "name"))];
    if is_mirror(pod) {
        return related_objects;
    }
    let account = Some(service_account_name(spec)).filter(|name| !name.is_empty());
    related_objects.extend(account.map(|name| related(ObjectType::ServiceAccount, name)));
    related_objects.extend(
        secret_names(spec)
            .into_iter()
            .map(|name| related(ObjectType::Secret, name)),
    );
    let config_maps = config_map_names(spec).into_iter();
    related_objects.extend(config_maps.map(|name| related(ObjectType::ConfigMap, name)));
    if related_objects.len() > REFERENCES_MAX {
        tracing::warn!(
            namespace,
            pod = text(metadata, "name"),
            references = related_objects.len(),
            references_max = REFERENCES_MAX,
            "Pod references too many objects; its node may not read all of them"
        );
        related_objects.truncate(REFERENCES_MAX);
    }
    related_objects
}
