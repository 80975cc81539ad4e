//! What is to be done about an object, from what is certain of it and its owners.

use api::object::ObjectMeta;

use super::graph::{Dependent, FOREGROUND, ORPHAN, Phase};

/// What an owner is to its dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there, or nobody can say that it is not.
    Solid,
    /// It waits for its dependents to go first.
    Waiting,
    /// It is gone.
    Dangling,
}

/// What becomes of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// The word of `DeleteOptions`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, or nothing yet.
    Leave,
    /// Its dependents are gone: the finalizer is removed.
    Release(&'static str),
    /// Its dependents lose their reference to it, then the finalizer is removed.
    Orphan,
    /// It has another owner: the references to these UIDs are removed.
    Disown(Vec<String>),
    /// No owner holds it: it is deleted.
    Delete {
        /// What becomes of its own dependents.
        propagation: Propagation,
        /// Its owners stop waiting for it first, because the waiting goes in a circle.
        unblocks: bool,
    },
}

/// Judges an object. `standings` has one entry for each of its `ownerReferences`, in order.
pub fn judge(meta: &ObjectMeta, standings: &[Standing], dependents: &[Dependent]) -> Verdict {
    match Phase::of(meta) {
        Phase::Deleting => Verdict::Leave,
        Phase::Orphaning => Verdict::Orphan,
        Phase::Foreground if dependents.iter().any(|dependent| dependent.is_blocking) => Verdict::Leave,
        Phase::Foreground => Verdict::Release(FOREGROUND),
        Phase::Live => judge_owners(meta, standings, dependents),
    }
}

fn judge_owners(meta: &ObjectMeta, standings: &[Standing], dependents: &[Dependent]) -> Verdict {
    if standings.is_empty() {
        return Verdict::Leave;
    }
    if standings.contains(&Standing::Solid) {
        let references = meta.owner_references.iter().zip(standings);
        let lost = references.filter(|(_, standing)| **standing != Standing::Solid);
        let lost: Vec<String> = lost.map(|(owner, _)| owner.uid.clone()).collect();
        return if lost.is_empty() {
            Verdict::Leave
        } else {
            Verdict::Disown(lost)
        };
    }
    if standings.contains(&Standing::Waiting) && !dependents.is_empty() {
        return Verdict::Delete {
            propagation: Propagation::Foreground,
            unblocks: dependents.iter().any(|dependent| dependent.is_foreground),
        };
    }
    let has = |name: &str| meta.finalizers.iter().any(|finalizer| finalizer == name);
    let propagation = match () {
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    Verdict::Delete {
        propagation,
        unblocks: false,
    }
}

#[cfg(test)]
mod tests;
