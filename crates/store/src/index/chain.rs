//! The versions of one key.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::Revision;

/// What a key was from one revision on.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Revision that created the key.
    pub(super) created: Revision,
    /// Revision from which this holds.
    pub(super) modified: Revision,
    /// The value; `None` if the key was removed then.
    pub(super) value: Option<Bytes>,
}

/// All versions of a key that can still be read. Most keys have one, so the older ones cost nothing then.
#[derive(Debug)]
pub(super) struct Chain {
    newest: Version,
    /// Ascending by revision.
    older: VecDeque<Version>,
}

impl Chain {
    pub(super) fn new(version: Version) -> Chain {
        Chain {
            newest: version,
            older: VecDeque::new(),
        }
    }

    pub(super) fn newest(&self) -> &Version {
        &self.newest
    }

    /// The version in force at a revision; `None` if the key had never existed then.
    pub(super) fn at(&self, revision: Revision) -> Option<&Version> {
        if self.newest.modified <= revision {
            return Some(&self.newest);
        }
        let newer_from = self.older.partition_point(|version| version.modified <= revision);
        self.older.get(newer_from.checked_sub(1)?)
    }

    pub(super) fn push(&mut self, version: Version) {
        let superseded = std::mem::replace(&mut self.newest, version);
        self.older.push_back(superseded);
    }

    /// Forgets what only reads before `oldest` can see. True if nothing is left: the key was removed by
    /// then.
    pub(super) fn forget_before(&mut self, oldest: Revision) -> bool {
        if self.newest.modified <= oldest {
            self.older = VecDeque::new();
            return self.newest.value.is_none();
        }
        let newer_from = self.older.partition_point(|version| version.modified <= oldest);
        let in_force = newer_from
            .checked_sub(1)
            .and_then(|position| self.older.get(position));
        // Reads find nothing where a removal is the first version, and also where there is none.
        let is_removal = in_force.is_some_and(|version| version.value.is_none());
        let superseded = if is_removal {
            newer_from
        } else {
            newer_from.saturating_sub(1)
        };
        self.older.drain(..superseded);
        if self.older.is_empty() {
            self.older = VecDeque::new();
        }
        false
    }
}
