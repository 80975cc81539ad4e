//! Versions of one key, by revision.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::Revision;

/// State of a key from one revision on.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Revision that created the key.
    pub(super) created: Revision,
    /// Revision from which the state is valid.
    pub(super) modified: Revision,
    /// Value; `None` if the key was removed at that revision.
    pub(super) value: Option<Bytes>,
}

/// All readable versions of a key. Most keys have one version, so a key without older versions needs no memory for
/// them.
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

    /// Returns the version at a revision; `None` if the key had never existed.
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

    /// Removes versions that only reads before `oldest` can return. Returns true if the key can be removed.
    pub(super) fn compact_before(&mut self, oldest: Revision) -> bool {
        if self.newest.modified <= oldest {
            self.older = VecDeque::new();
            return self.newest.value.is_none();
        }
        let newer_from = self.older.partition_point(|version| version.modified <= oldest);
        let valid = newer_from
            .checked_sub(1)
            .and_then(|position| self.older.get(position));
        // A read returns the same for a removal as the first version as for no version.
        let is_removal = valid.is_some_and(|version| version.value.is_none());
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
