//! The decision about an object, from verified facts about it and its owners.
//!
//! An object with a solid owner stays, and loses the references to its other owners. An object whose owners are all
//! deleted, or wait for it, is deleted.

use api::object::ObjectMeta;

use super::graph::{Dependent, FOREGROUND, ORPHAN, Phase};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// The owner exists, or its kind is not known.
    Solid,
    /// The owner waits for its dependents to be deleted first.
    Waiting,
    /// The owner is deleted.
    Dangling,
}

/// The deletion propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Dependents are deleted afterwards.
    Background,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents stay.
    Orphan,
}

impl Propagation {
    /// Returns the value of `DeleteOptions.propagationPolicy`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// The decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// No action is due.
    Leave,
    /// Remove this finalizer: the dependents are deleted.
    RemoveFinalizer(&'static str),
    /// Remove the references of the dependents, then the finalizer.
    Orphan,
    /// Remove the references to these UIDs: another owner is solid.
    RemoveReferences(Vec<String>),
    /// Delete the object: no owner is left.
    Delete {
        /// The fate of its own dependents.
        propagation: Propagation,
        /// True if `blockOwnerDeletion` has to be cleared first, because owners and dependents wait for each
        /// other.
        unblocks: bool,
    },
}

/// Decides about an object. `owner_states` has one entry for each of its `ownerReferences`, in order.
pub(crate) fn decide(meta: &ObjectMeta, owner_states: &[OwnerState], dependents: &[Dependent]) -> Decision {
    match Phase::of(meta) {
        Phase::Deleting => Decision::Leave,
        Phase::Orphaning => Decision::Orphan,
        Phase::Foreground if dependents.iter().any(|dependent| dependent.is_blocking) => Decision::Leave,
        Phase::Foreground => Decision::RemoveFinalizer(FOREGROUND),
        Phase::Live => decide_by_owners(meta, owner_states, dependents),
    }
}

fn decide_by_owners(meta: &ObjectMeta, owner_states: &[OwnerState], dependents: &[Dependent]) -> Decision {
    if owner_states.is_empty() {
        return Decision::Leave;
    }
    if owner_states.contains(&OwnerState::Solid) {
        let references = meta.owner_references.iter().zip(owner_states);
        let lost = references.filter(|(_, owner_state)| **owner_state != OwnerState::Solid);
        let lost: Vec<String> = lost.map(|(owner, _)| owner.uid.clone()).collect();
        return if lost.is_empty() {
            Decision::Leave
        } else {
            Decision::RemoveReferences(lost)
        };
    }
    if owner_states.contains(&OwnerState::Waiting) && !dependents.is_empty() {
        return Decision::Delete {
            propagation: Propagation::Foreground,
            unblocks: dependents.iter().any(|dependent| dependent.is_foreground),
        };
    }
    let has = |name: &str| meta.finalizers.iter().any(|finalizer| finalizer == name);
    let propagation = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete {
        propagation,
        unblocks: false,
    }
}

#[cfg(test)]
mod tests;
