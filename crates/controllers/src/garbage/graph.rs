//! Who depends on whom, kept up by watch events.
//!
//! Of an object that has neither an owner nor a deletion that waits for its dependents, nothing is kept but
//! sixteen bytes that say which incarnation is at its place.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use api::object::ObjectMeta;

use super::kinds::Place;

/// The finalizer of an owner that goes after its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that leaves its dependents behind.
pub const ORPHAN: &str = "orphan";

/// How far the deletion of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Nobody asked for it.
    #[default]
    Live,
    /// It waits until its dependents are deleted.
    Foreground,
    /// It waits until its dependents no longer name it.
    Orphaning,
    /// It waits for something that is not the collector's.
    Deleting,
}

impl Phase {
    /// The phase that the metadata says.
    pub fn of(meta: &ObjectMeta) -> Self {
        let has = |name: &str| meta.finalizers.iter().any(|finalizer| finalizer == name);
        match meta.deletion_timestamp {
            None => Self::Live,
            Some(_) if has(ORPHAN) => Self::Orphaning,
            Some(_) if has(FOREGROUND) => Self::Foreground,
            Some(_) => Self::Deleting,
        }
    }
}

/// An object that names the one that is looked at as its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Where it is.
    pub place: Place,
    /// Whether the owner's foreground deletion waits for it.
    pub is_blocking: bool,
    /// Whether it waits for dependents of its own.
    pub is_foreground: bool,
}

/// What is known of an object when it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its incarnation.
    pub uid: String,
    /// How far its deletion is.
    pub phase: Phase,
    /// UIDs of the owners that are there and do not wait for this object's deletion.
    pub solid_owners: HashSet<String>,
    /// Whether all owners are such, or of kinds that nobody watches.
    pub is_held: bool,
    /// Who names it as an owner.
    pub dependents: Vec<Dependent>,
}

impl Case {
    /// Whether there may be something to do.
    pub fn is_open(&self) -> bool {
        match self.phase {
            Phase::Live => !self.is_held,
            Phase::Foreground | Phase::Orphaning => true,
            Phase::Deleting => false,
        }
    }
}

/// All owners and dependents.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Place, Node>,
    /// By the place of the owner, whichever incarnation is meant.
    dependents: HashMap<Place, BTreeSet<Place>>,
    /// Which incarnation is at a place: fingerprints of both, under a secret key, so that nobody can
    /// construct two that are alike.
    present: HashMap<u64, u64>,
    fingerprints: RandomState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    uid: String,
    phase: Phase,
    owners: Vec<Owner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    /// None if nobody can say where it is.
    place: Option<Place>,
    uid: String,
    is_blocked: bool,
}

impl Graph {
    /// Takes in an object as it is now; returns the places to look at because of it.
    pub fn apply(&mut self, place: &Place, meta: &ObjectMeta) -> BTreeSet<Place> {
        let node = Node::read(place, meta);
        let slot = self.fingerprints.hash_one(place);
        let uid = self.fingerprints.hash_one(&meta.uid);
        let was_same = self.present.insert(slot, uid) == Some(uid);
        let before = self.nodes.get(place);
        if was_same && before == node.as_ref() {
            return BTreeSet::new();
        }
        let phase = |node: Option<&Node>| node.map(|node| node.phase).unwrap_or_default();
        let is_other_owner = !was_same || phase(before) != phase(node.as_ref());
        let mut looks = self.replace(place, node);
        if is_other_owner {
            looks.extend(self.dependents_at(place));
        }
        looks
    }

    /// Takes in that the place is empty; returns the places to look at because of it.
    pub fn remove(&mut self, place: &Place) -> BTreeSet<Place> {
        self.present.remove(&self.fingerprints.hash_one(place));
        let mut looks = self.replace(place, None);
        looks.extend(self.dependents_at(place));
        looks
    }

    /// What is known of the object at a place; None if no deletion concerns it.
    pub fn case(&self, place: &Place) -> Option<Case> {
        let node = self.nodes.get(place)?;
        let held = |owner: &&Owner| owner.place.as_ref().is_none_or(|p| self.is_solid(p, &owner.uid));
        let solid: Vec<&Owner> = node.owners.iter().filter(held).collect();
        Some(Case {
            uid: node.uid.clone(),
            phase: node.phase,
            is_held: solid.len() == node.owners.len(),
            solid_owners: solid.into_iter().map(|owner| owner.uid.clone()).collect(),
            dependents: self.dependents_of(place, &node.uid),
        })
    }

    /// All places where there may be something to do; for when events may have been missed.
    pub fn open_cases(&self) -> Vec<Place> {
        let is_open = |place: &&Place| self.case(place).is_some_and(|case| case.is_open());
        self.nodes.keys().filter(is_open).cloned().collect()
    }

    /// How many objects are kept, beside the sixteen bytes of each.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no object has an owner or waits for dependents.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts a node in another's stead; returns the place itself and the owners that wait for it.
    fn replace(&mut self, place: &Place, node: Option<Node>) -> BTreeSet<Place> {
        let mut looks = BTreeSet::new();
        let before = self.nodes.remove(place);
        for owner in before.into_iter().flat_map(|before| before.owners) {
            let Some(owner) = owner.place else { continue };
            if let Some(dependents) = self.dependents.get_mut(&owner) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
            if self.phase_at(&owner) == Phase::Foreground {
                looks.insert(owner);
            }
        }
        let Some(node) = node else { return looks };
        for owner in node.owners.iter().filter_map(|owner| owner.place.clone()) {
            self.dependents.entry(owner).or_default().insert(place.clone());
        }
        self.nodes.insert(place.clone(), node);
        looks.insert(place.clone());
        looks
    }

    fn is_solid(&self, place: &Place, uid: &str) -> bool {
        let present = self.present.get(&self.fingerprints.hash_one(place));
        present == Some(&self.fingerprints.hash_one(uid)) && self.phase_at(place) != Phase::Foreground
    }

    fn phase_at(&self, place: &Place) -> Phase {
        self.nodes.get(place).map(|node| node.phase).unwrap_or_default()
    }

    fn dependents_at(&self, place: &Place) -> impl Iterator<Item = Place> {
        self.dependents.get(place).into_iter().flatten().cloned()
    }

    fn dependents_of(&self, place: &Place, uid: &str) -> Vec<Dependent> {
        let read = |dependent: Place| {
            let node = self.nodes.get(&dependent)?;
            let mut references = node.owners.iter().filter(|owner| owner.uid == uid).peekable();
            references.peek()?;
            Some(Dependent {
                is_blocking: references.any(|owner| owner.is_blocked),
                is_foreground: node.phase == Phase::Foreground,
                place: dependent,
            })
        };
        self.dependents_at(place).filter_map(read).collect()
    }
}

impl Node {
    /// What is kept of an object; None if nothing needs to be.
    fn read(place: &Place, meta: &ObjectMeta) -> Option<Self> {
        let phase = Phase::of(meta);
        let is_waiting = matches!(phase, Phase::Foreground | Phase::Orphaning);
        if meta.owner_references.is_empty() && !is_waiting {
            return None;
        }
        let owners = meta.owner_references.iter().map(|owner| Owner {
            place: place.of_owner(owner),
            uid: owner.uid.clone(),
            is_blocked: owner.block_owner_deletion == Some(true),
        });
        Some(Self {
            uid: meta.uid.clone(),
            phase,
            owners: owners.collect(),
        })
    }
}

#[cfg(test)]
mod tests;
