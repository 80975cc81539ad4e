//! Objects that controllers own, findable by their owner, and those that nobody owns.

use std::collections::{BTreeMap, BTreeSet};

use api::field::Path;
use api::object::{Labels, ObjectKey, ObjectMeta, OwnerReference, Resource};
use api::selector::LabelSelector;
use serde_json::Value;

use crate::world::ByKey;
use crate::write::Listed;

/// A cache of a kind that is written through, by the UID of the controller that owns each object.
pub(crate) struct Owned<T> {
    objects: ByKey<T>,
    /// The objects of a controller. "" stands for those of nobody.
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
}

/// Who is concerned by a change of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Concerned {
    /// UIDs of the controllers that own it, before or now.
    pub(crate) owners: BTreeSet<String>,
    /// Namespace and labels of an object that nobody owns: whoever selects it may adopt it.
    pub(crate) orphan: Option<(ObjectKey, Labels)>,
}

impl<T> Default for Owned<T> {
    fn default() -> Self {
        Self {
            objects: ByKey::default(),
            by_owner: BTreeMap::new(),
        }
    }
}

impl<T: Resource> Owned<T> {
    /// The watch tells of an object.
    pub(crate) fn apply(&mut self, object: T) -> Concerned {
        let key = object.metadata().key();
        self.change(&key, |objects| objects.apply(object))
    }

    /// An answer says that this is the object now.
    pub(crate) fn answered(&mut self, object: T) -> Concerned {
        let key = object.metadata().key();
        self.change(&key, |objects| objects.answered(object))
    }

    /// An answer says that these are all objects of a namespace that a selector chooses, at one revision: those of an
    /// owner that are not among them are gone.
    pub(crate) fn answered_all(&mut self, owner_uid: &str, selector: &LabelSelector, listed: Listed<T>) {
        let there: BTreeSet<&str> = listed
            .items
            .iter()
            .map(|object| &*object.metadata().uid)
            .collect();
        let is_gone = |meta: &&ObjectMeta| {
            let version = meta.resource_version.parse().unwrap_or(0_u64);
            selects(selector, &meta.labels) && !there.contains(&*meta.uid) && version <= listed.revision
        };
        let of_owner = self.of(owner_uid).map(Resource::metadata);
        let gone: Vec<ObjectMeta> = of_owner.filter(is_gone).cloned().collect();
        for meta in gone {
            self.deleted(&meta);
        }
        for object in listed.items {
            self.answered(object);
        }
    }

    /// The watch tells that the object of a key is gone.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Concerned {
        self.change(key, |objects| objects.remove(key))
    }

    /// An answer says that the object is gone.
    pub(crate) fn deleted(&mut self, meta: &ObjectMeta) -> Concerned {
        self.change(&meta.key(), |objects| {
            objects.deleted(meta);
            true
        })
    }

    /// The watch has told a complete list of this revision; who is concerned by what is gone by it.
    pub(crate) fn listed(&mut self, revision: u64) -> Vec<Concerned> {
        let before: BTreeMap<ObjectKey, Option<String>> = self
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), owner_of(object)))
            .collect();
        let gone = self.objects.listed(revision);
        gone.into_iter()
            .map(|key| {
                let owner = before.get(&key).cloned().flatten();
                self.unlist(&key, owner.as_deref());
                Concerned {
                    owners: owner.into_iter().filter(|owner| !owner.is_empty()).collect(),
                    orphan: None,
                }
            })
            .collect()
    }

    /// The objects of a controller, in the order of their keys.
    pub(crate) fn of(&self, owner_uid: &str) -> impl Iterator<Item = &T> {
        let keys = self.by_owner.get(owner_uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key))
    }

    /// The objects of a namespace that nobody owns and a selector chooses.
    pub(crate) fn orphans(&self, namespace: &str, selector: &LabelSelector) -> Vec<&T> {
        let is_chosen = |object: &&T| {
            let meta = object.metadata();
            meta.namespace == namespace && selects(selector, &meta.labels)
        };
        self.of("").filter(is_chosen).collect()
    }

    /// The objects of a namespace, in the order of their names.
    pub(crate) fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
        self.objects.in_namespace(namespace)
    }

    /// The object of a key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.objects.get(key)
    }

    /// Changes the object of a key; who is concerned, if that was news.
    fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut ByKey<T>) -> bool) -> Concerned {
        let before = self
            .objects
            .get(key)
            .map(|object| owner_of(object).unwrap_or_default());
        if !change(&mut self.objects) {
            return Concerned::default();
        }
        let now = self.objects.get(key);
        let after = now.map(|object| owner_of(object).unwrap_or_default());
        let orphan = now
            .filter(|_| after.as_deref() == Some(""))
            .map(|object| (key.clone(), object.metadata().labels.clone()));
        if before != after {
            self.unlist(key, before.as_deref());
            if let Some(owner) = &after {
                self.by_owner
                    .entry(owner.clone())
                    .or_default()
                    .insert(key.clone());
            }
        }
        let owners = before.into_iter().chain(after);
        Concerned {
            owners: owners.filter(|owner| !owner.is_empty()).collect(),
            orphan,
        }
    }

    fn unlist(&mut self, key: &ObjectKey, owner: Option<&str>) {
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

/// Whether a selector chooses labels.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

/// The selector of a spec; `None` if it cannot be read or chooses everything, which no controller may.
pub(crate) fn read_selector(selector: &Value) -> Option<LabelSelector> {
    let selector = LabelSelector::from_object(&Path::new("selector"), selector).ok()?;
    (!selector.is_empty()).then_some(selector)
}

/// A change of who owns an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The object, as it was when this was decided.
    pub meta: ObjectMeta,
    /// Its owners from now on.
    pub owners: Vec<OwnerReference>,
    /// Whether the owner takes it, which only one who is there may; else it lets it go.
    pub is_adoption: bool,
}

/// What a controller has to take, and to let go: of `objects`, those that it owns or nobody does, it owns those that
/// `selector` chooses. One that is being deleted takes nothing, and what is being deleted is not taken.
pub(crate) fn claims<'a, O: Resource>(
    owner: &O,
    selector: &LabelSelector,
    objects: impl Iterator<Item = &'a ObjectMeta>,
) -> Vec<Claim> {
    let me = owner.metadata();
    objects
        .filter_map(|meta| {
            let is_mine = meta
                .controller()
                .is_some_and(|controller| controller.uid == me.uid);
            let is_chosen = selects(selector, &meta.labels);
            let may_take = me.deletion_timestamp.is_none() && meta.deletion_timestamp.is_none();
            let mut owners = meta.owner_references.clone();
            match (is_mine, is_chosen) {
                (true, false) if me.deletion_timestamp.is_none() => {
                    owners.retain(|owner| owner.uid != me.uid)
                }
                (false, true) if may_take && meta.controller().is_none() => {
                    owners.retain(|owner| owner.uid != me.uid);
                    owners.push(reference_to(owner));
                }
                _ => return None,
            }
            Some(Claim {
                meta: meta.clone(),
                owners,
                is_adoption: !is_mine,
            })
        })
        .collect()
}

/// The reference by which an object says that `owner` is its controller.
pub(crate) fn reference_to<O: Resource>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: crate::write::api_version::<O>(),
        kind: O::KIND.to_owned(),
        name: owner.metadata().name.clone(),
        uid: owner.metadata().uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests;
