//! The graph of owners and dependents, maintained from watch events.
//!
//! An object without owners costs 16 bytes if its deletion does not wait for dependents: a fingerprint of its
//! location and one of its UID.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use api::object::ObjectMeta;

use super::kinds::ObjectLocation;
use crate::caches::{CompactSet, Uid};

/// Finalizer of an owner that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// The phase of an object's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// Not deleted.
    #[default]
    Live,
    /// Waits for the deletion of its dependents.
    Foreground,
    /// Waits for its dependents to drop their references.
    Orphaning,
    /// Waits for a finalizer of another component.
    Deleting,
}

impl Phase {
    /// Reads the phase from the metadata.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        let has = |name: &str| meta.finalizers.iter().any(|finalizer| finalizer == name);
        match meta.deletion_timestamp {
            None => Self::Live,
            Some(_) if has(ORPHAN) => Self::Orphaning,
            Some(_) if has(FOREGROUND) => Self::Foreground,
            Some(_) => Self::Deleting,
        }
    }
}

/// An object that names the candidate as its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    /// Location of the dependent.
    pub location: ObjectLocation,
    /// True if it blocks the foreground deletion of its owner.
    pub is_blocking: bool,
    /// True if it waits for dependents of its own.
    pub is_foreground: bool,
}

/// A candidate for collection, with its state in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// UID of the object.
    pub uid: String,
    /// Phase of its deletion.
    pub phase: Phase,
    /// UIDs of owners that exist and do not wait for this object's deletion.
    pub solid_owners: HashSet<String>,
    /// True if all owners are solid, or of kinds that are not watched.
    pub has_only_solid_owners: bool,
    /// Objects that name it as an owner.
    pub dependents: Vec<Dependent>,
}

impl Candidate {
    /// Returns true if an action may be due.
    pub(crate) fn needs_work(&self) -> bool {
        match self.phase {
            Phase::Live => !self.has_only_solid_owners,
            Phase::Foreground | Phase::Orphaning => true,
            Phase::Deleting => false,
        }
    }
}

/// Owners and dependents of all objects.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: HashMap<ObjectLocation, Node>,
    /// Dependents by the location of the owner, for any UID.
    dependents: HashMap<ObjectLocation, CompactSet<ObjectLocation>>,
    /// Fingerprints of the UID by that of the location. Their hash has a random key, so that clients cannot construct a
    /// collision.
    present: HashMap<u64, u64>,
    fingerprints: RandomState,
}

/// An object of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    uid: Uid,
    phase: Phase,
    owners: Box<[Owner]>,
}

/// Owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    /// `None` if the kind is not watched or the reference is invalid.
    location: Option<ObjectLocation>,
    uid: Uid,
    is_blocked: bool,
}

impl Graph {
    /// Applies an object; returns the locations to check.
    pub(crate) fn apply(&mut self, location: &ObjectLocation, meta: &ObjectMeta) -> BTreeSet<ObjectLocation> {
        let node = Node::read(location, meta);
        let key = self.fingerprints.hash_one(location);
        let uid = self.fingerprints.hash_one(&meta.uid);
        let was_same = self.present.insert(key, uid) == Some(uid);
        let before = self.nodes.get(location);
        if was_same && before == node.as_ref() {
            return BTreeSet::new();
        }
        let phase = |node: Option<&Node>| node.map(|node| node.phase).unwrap_or_default();
        let is_other_owner = !was_same || phase(before) != phase(node.as_ref());
        let mut affected = self.replace(location, node);
        if is_other_owner {
            affected.extend(self.dependents_at(location));
        }
        affected
    }

    /// Removes the object at a location; returns the locations to check.
    pub(crate) fn remove(&mut self, location: &ObjectLocation) -> BTreeSet<ObjectLocation> {
        self.present.remove(&self.fingerprints.hash_one(location));
        let mut affected = self.replace(location, None);
        affected.extend(self.dependents_at(location));
        affected
    }

    /// Returns the candidate at a location; `None` if no deletion affects it.
    pub(crate) fn candidate(&self, location: &ObjectLocation) -> Option<Candidate> {
        let node = self.nodes.get(location)?;
        let is_solid_or_unknown = |owner: &&Owner| {
            owner
                .location
                .as_ref()
                .is_none_or(|parent| self.is_solid(parent, &owner.uid.text()))
        };
        let solid: Vec<&Owner> = node.owners.iter().filter(is_solid_or_unknown).collect();
        Some(Candidate {
            uid: node.uid.text().into_owned(),
            phase: node.phase,
            has_only_solid_owners: solid.len() == node.owners.len(),
            solid_owners: solid
                .into_iter()
                .map(|owner| owner.uid.text().into_owned())
                .collect(),
            dependents: self.dependents_of(location, &node.uid),
        })
    }

    /// Returns all candidates that may need an action. The caller uses them after possibly lost events.
    pub(crate) fn open_candidates(&self) -> Vec<ObjectLocation> {
        let needs_work = |location: &&ObjectLocation| {
            self.candidate(location)
                .is_some_and(|candidate| candidate.needs_work())
        };
        self.nodes.keys().filter(needs_work).cloned().collect()
    }

    /// Replaces a node; returns its location and the owners that wait for it.
    fn replace(&mut self, location: &ObjectLocation, node: Option<Node>) -> BTreeSet<ObjectLocation> {
        let mut affected = BTreeSet::new();
        let before = self.nodes.remove(location);
        for owner in before.into_iter().flat_map(|before| before.owners) {
            let Some(owner) = owner.location else { continue };
            if let Some(dependents) = self.dependents.get_mut(&owner) {
                dependents.remove(location);
                if dependents.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
            if self.phase_at(&owner) == Phase::Foreground {
                affected.insert(owner);
            }
        }
        let Some(mut node) = node else { return affected };
        for owner in node.owners.iter_mut().filter_map(|owner| owner.location.as_mut()) {
            // The dependents of an owner share its location.
            if let Some((known, _)) = self.dependents.get_key_value(owner) {
                *owner = known.clone();
            }
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.insert(location.clone());
        }
        self.nodes.insert(location.clone(), node);
        affected.insert(location.clone());
        affected
    }

    fn is_solid(&self, location: &ObjectLocation, uid: &str) -> bool {
        let present = self.present.get(&self.fingerprints.hash_one(location));
        present == Some(&self.fingerprints.hash_one(uid)) && self.phase_at(location) != Phase::Foreground
    }

    fn phase_at(&self, location: &ObjectLocation) -> Phase {
        self.nodes
            .get(location)
            .map(|node| node.phase)
            .unwrap_or_default()
    }

    fn dependents_at(&self, location: &ObjectLocation) -> impl Iterator<Item = ObjectLocation> {
        let dependents = self.dependents.get(location).into_iter();
        dependents.flat_map(CompactSet::iter).cloned()
    }

    fn dependents_of(&self, location: &ObjectLocation, uid: &Uid) -> Vec<Dependent> {
        let read = |dependent: ObjectLocation| {
            let node = self.nodes.get(&dependent)?;
            let mut references = node.owners.iter().filter(|owner| owner.uid == *uid).peekable();
            references.peek()?;
            Some(Dependent {
                is_blocking: references.any(|owner| owner.is_blocked),
                is_foreground: node.phase == Phase::Foreground,
                location: dependent,
            })
        };
        self.dependents_at(location).filter_map(read).collect()
    }
}

impl Node {
    /// Builds the node of an object; `None` if it needs none.
    fn read(location: &ObjectLocation, meta: &ObjectMeta) -> Option<Self> {
        let phase = Phase::of(meta);
        let is_waiting = matches!(phase, Phase::Foreground | Phase::Orphaning);
        if meta.owner_references.is_empty() && !is_waiting {
            return None;
        }
        let owners = meta.owner_references.iter().map(|owner| Owner {
            location: location.of_owner(owner),
            uid: Uid::new(&owner.uid),
            is_blocked: owner.block_owner_deletion == Some(true),
        });
        Some(Self {
            uid: Uid::new(&meta.uid),
            phase,
            owners: owners.collect(),
        })
    }
}

#[cfg(test)]
mod tests;
