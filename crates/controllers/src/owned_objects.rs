//! Objects indexed by the controller that owns them.

use std::collections::{BTreeMap, BTreeSet};

use api::field::Path;
use api::object::{Labels, ObjectKey, ObjectMeta, OwnerReference, Resource};
use api::selector::LabelSelector;
use serde_json::Value;

use crate::api_requests::ObjectList;
use crate::caches::ObjectCache;

/// A cache of one kind with an index by the UID of the owning controller.
pub(crate) struct OwnedObjects<T> {
    objects: ObjectCache<T>,
    /// Keys by the UID of the controller; the empty UID stands for objects without one.
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
}

/// The owners that a change of an object affects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AffectedOwners {
    /// UIDs of the controllers that own it now or owned it before.
    pub(crate) owners: BTreeSet<String>,
    /// Key and labels of an object without owner, which a matching owner may adopt.
    pub(crate) orphan: Option<(ObjectKey, Labels)>,
}

impl<T> Default for OwnedObjects<T> {
    fn default() -> Self {
        Self {
            objects: ObjectCache::default(),
            by_owner: BTreeMap::new(),
        }
    }
}

impl<T: Resource> OwnedObjects<T> {
    /// Applies an object from the watch.
    pub(crate) fn apply(&mut self, object: T) -> AffectedOwners {
        let key = object.metadata().key();
        self.change(&key, |objects| objects.apply(object))
    }

    /// Applies an object from a response.
    pub(crate) fn apply_response(&mut self, object: T) -> AffectedOwners {
        let key = object.metadata().key();
        self.change(&key, |objects| objects.apply_response(object))
    }

    /// Applies the complete list of objects that match a selector. Objects of the owner that it lacks are
    /// deleted.
    pub(crate) fn apply_list(&mut self, owner: &ObjectMeta, selector: &LabelSelector, listed: ObjectList<T>) {
        let listed_uids: BTreeSet<&str> = listed
            .items
            .iter()
            .map(|object| &*object.metadata().uid)
            .collect();
        let is_deleted = |meta: &&ObjectMeta| {
            let version = meta.resource_version.parse().unwrap_or(0_u64);
            selector_matches(selector, &meta.labels)
                && !listed_uids.contains(&*meta.uid)
                && version <= listed.revision
        };
        let owned_metadata = self.of(&owner.namespace, &owner.uid).map(Resource::metadata);
        let deleted: Vec<ObjectMeta> = owned_metadata.filter(is_deleted).cloned().collect();
        for meta in deleted {
            self.confirm_deletion(&meta);
        }
        for object in listed.items {
            self.apply_response(object);
        }
    }

    /// Applies a deletion from the watch.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> AffectedOwners {
        self.change(key, |objects| objects.remove(key))
    }

    /// Applies a response that confirms the deletion of an object.
    pub(crate) fn confirm_deletion(&mut self, meta: &ObjectMeta) -> AffectedOwners {
        self.change(&meta.key(), |objects| {
            objects.confirm_deletion(meta);
            true
        })
    }

    /// Records that the watch has delivered a complete list of this revision; returns the owners of the removed
    /// objects.
    pub(crate) fn complete_list(&mut self, revision: u64) -> Vec<AffectedOwners> {
        let before: BTreeMap<ObjectKey, Option<String>> = self
            .objects
            .iter()
            .map(|object| (object.metadata().key(), owner_of(object)))
            .collect();
        let deleted = self.objects.complete_list(revision);
        deleted
            .into_iter()
            .map(|key| {
                let owner = before.get(&key).cloned().flatten();
                self.remove_owner(&key, owner.as_deref());
                AffectedOwners {
                    owners: owner.into_iter().filter(|owner| !owner.is_empty()).collect(),
                    orphan: None,
                }
            })
            .collect()
    }

    /// Iterates over the objects of a controller in the order of their names. Objects of other namespaces do not count,
    /// although they can name the UID of any owner.
    pub(crate) fn of(&self, namespace: &str, owner_uid: &str) -> impl Iterator<Item = &T> {
        let keys = self.by_owner.get(owner_uid).into_iter();
        let keys = keys.flat_map(move |keys| keys.range(ObjectKey::new(namespace, "")..));
        let keys = keys.take_while(move |key| &*key.namespace == namespace);
        keys.filter_map(|key| self.objects.get(key))
    }

    /// Returns the matching objects of a namespace without owner.
    pub(crate) fn orphans(&self, namespace: &str, selector: &LabelSelector) -> Vec<&T> {
        let is_selected = |object: &&T| selector_matches(selector, &object.metadata().labels);
        self.of(namespace, "").filter(is_selected).collect()
    }

    /// Iterates over the objects of a namespace in the order of their names.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        self.objects.in_namespace(namespace)
    }

    /// Returns the object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.objects.get(key)
    }

    /// Changes the object with this key; returns the affected owners if the cache changed.
    fn change(
        &mut self,
        key: &ObjectKey,
        change: impl FnOnce(&mut ObjectCache<T>) -> bool,
    ) -> AffectedOwners {
        let before = self
            .objects
            .get(key)
            .map(|object| owner_of(object).unwrap_or_default());
        if !change(&mut self.objects) {
            return AffectedOwners::default();
        }
        let now = self.objects.get(key);
        let after = now.map(|object| owner_of(object).unwrap_or_default());
        let orphan = now
            .filter(|_| after.as_deref() == Some(""))
            .map(|object| (key.clone(), object.metadata().labels.clone()));
        if before != after {
            self.remove_owner(key, before.as_deref());
            if let Some(owner) = &after {
                self.by_owner
                    .entry(owner.clone())
                    .or_default()
                    .insert(key.clone());
            }
        }
        let owners = before.into_iter().chain(after);
        AffectedOwners {
            owners: owners.filter(|owner| !owner.is_empty()).collect(),
            orphan,
        }
    }

    fn remove_owner(&mut self, key: &ObjectKey, owner: Option<&str>) {
        let owner = owner.unwrap_or_default();
        if let Some(keys) = self.by_owner.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }
}

fn owner_of<T: Resource>(object: &T) -> Option<String> {
    object.metadata().controller().map(|owner| owner.uid.clone())
}

/// Returns true if a selector matches labels.
pub(crate) fn selector_matches(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

/// Reads the selector of a spec; `None` if it is invalid or matches everything, which no controller may.
pub(crate) fn read_selector(selector: &Value) -> Option<LabelSelector> {
    let selector = LabelSelector::from_object(&Path::new("selector"), selector).ok()?;
    (!selector.is_empty()).then_some(selector)
}

/// A change of an object's owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerChange {
    /// Metadata of the object at the time of the decision.
    pub meta: ObjectMeta,
    /// The new owner references.
    pub owners: Vec<OwnerReference>,
    /// The new finalizers; `None` if they stay.
    pub finalizers: Option<Vec<String>>,
    /// True for an adoption, which requires that the owner exists; false for a release.
    pub is_adoption: bool,
}

/// Computes adoptions and releases among `objects`, which the owner owns or which have no owner. The owner
/// owns those that match `selector`. An owner that is being deleted adopts nothing, and an object that is
/// being deleted is not adopted.
pub(crate) fn owner_changes<'a, O: Resource>(
    owner: &O,
    selector: &LabelSelector,
    objects: impl Iterator<Item = &'a ObjectMeta>,
) -> Vec<OwnerChange> {
    let owner_meta = owner.metadata();
    objects
        .filter_map(|meta| {
            let is_owned = meta
                .controller()
                .is_some_and(|controller| controller.uid == owner_meta.uid);
            let is_selected = selector_matches(selector, &meta.labels);
            let may_adopt = owner_meta.deletion_timestamp.is_none() && meta.deletion_timestamp.is_none();
            let mut owners = meta.owner_references.clone();
            match (is_owned, is_selected) {
                (true, false) if owner_meta.deletion_timestamp.is_none() => {
                    owners.retain(|owner| owner.uid != owner_meta.uid)
                }
                (false, true) if may_adopt && meta.controller().is_none() => {
                    owners.retain(|owner| owner.uid != owner_meta.uid);
                    owners.push(reference_to(owner));
                }
                _ => return None,
            }
            Some(OwnerChange {
                meta: meta.clone(),
                owners,
                finalizers: None,
                is_adoption: !is_owned,
            })
        })
        .collect()
}

/// Returns the owner reference to `owner` as the controller.
pub(crate) fn reference_to<O: Resource>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: reconcile::events::api_version::<O>(),
        kind: O::KIND.to_owned(),
        name: owner.metadata().name.clone(),
        uid: owner.metadata().uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests;
