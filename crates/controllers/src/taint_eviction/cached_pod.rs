//! Pods as the eviction by taints caches them.

use std::borrow::Cow;
use std::sync::Arc;

use api::object::{ObjectKey, ObjectMeta};
use api::pod::MIRROR_ANNOTATION;

use super::pod::EvictionPod;
use crate::caches::{Cached, InternedValues, Keyed, Time, Uid};
use crate::scheduler::Toleration;

/// Fields of a Pod that decide about its eviction, and its name.
#[derive(Clone, Debug)]
pub(super) struct CachedPod {
    key: ObjectKey,
    uid: Uid,
    version: u64,
    /// Name of the Node; empty if the Pod is pending.
    pub(super) node_name: Arc<str>,
    /// Tolerations of taints.
    pub(super) tolerations: Arc<[Toleration]>,
    /// Time of creation, if it is readable.
    pub(super) created: Option<Time>,
    /// False for Pods that end, and for mirror Pods, which belong to their Node.
    pub(super) is_evictable: bool,
}

/// Values that cached Pods share.
#[derive(Debug, Default)]
pub(super) struct SharedValues {
    /// Names of Nodes.
    names: InternedValues<str>,
    tolerations: InternedValues<[Toleration]>,
}

impl CachedPod {
    /// Returns the cached form of a Pod.
    pub(super) fn of(pod: EvictionPod, shared: &mut SharedValues) -> Self {
        let metadata = &pod.metadata;
        let is_ending = metadata.deletion_timestamp.is_some() || pod.is_finished();
        let created = metadata.creation_timestamp.as_deref();
        Self {
            key: metadata.key(),
            uid: Uid::new(&metadata.uid),
            version: metadata.resource_version.parse().unwrap_or(0),
            node_name: shared.names.intern(pod.spec.node_name.as_str()),
            created: created.and_then(Time::parse),
            is_evictable: !is_ending && !metadata.annotations.contains_key(MIRROR_ANNOTATION),
            tolerations: shared.tolerations.intern(pod.spec.tolerations),
        }
    }

    /// Returns key and UID as metadata.
    pub(super) fn identity(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: (*self.key.namespace).to_owned(),
            name: (*self.key.name).to_owned(),
            uid: self.uid.text().into_owned(),
            ..ObjectMeta::default()
        }
    }

    /// Shares the key with an earlier state of the Pod. Indexes keep their first key.
    pub(super) fn share_key_with(&mut self, before: &Self) {
        self.key = before.key.clone();
    }
}

impl Keyed for CachedPod {
    fn key_texts(&self) -> (&str, &str) {
        (&self.key.namespace, &self.key.name)
    }
}

impl Cached for CachedPod {
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }

    fn uid(&self) -> Cow<'_, str> {
        self.uid.text()
    }

    fn version(&self) -> u64 {
        self.version
    }
}

#[cfg(test)]
mod tests;
