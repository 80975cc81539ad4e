//! The pure part of group commit. Each transaction of a group is checked against the writes of the earlier ones, before
//! any of them is durable.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::index::{Change, Commit};
use crate::{CommitError, Entry, Index, Key, Revision, Transaction, Value, Write};

/// Transactions that become durable together, each with a revision of its own.
pub(crate) struct Group<'index> {
    index: &'index Index,
    newest: Revision,
    /// Entries after the accepted transactions.
    written: HashMap<Key, Option<Entry>>,
    commits: Vec<Commit>,
}

impl<'index> Group<'index> {
    /// Creates an empty group on top of the index. No other writer may publish to the index meanwhile.
    pub(crate) fn new(index: &'index Index) -> Group<'index> {
        Group {
            index,
            newest: index.revision(),
            written: HashMap::new(),
            commits: Vec::new(),
        }
    }

    /// Adds a transaction if its expectations hold, and returns its revision. A transaction without effect gets the
    /// newest revision.
    pub(crate) fn add(&mut self, transaction: &Transaction) -> Result<Revision, CommitError> {
        self.check_expectations(transaction)?;
        check_keys_unique(&transaction.writes)?;
        let revision = Revision(self.newest.0 + 1);
        let mut changes = Vec::with_capacity(transaction.writes.len());
        for write in &transaction.writes {
            changes.extend(self.change(write, revision)?);
        }
        if changes.is_empty() {
            return Ok(self.newest);
        }
        for change in &changes {
            self.apply_change(change, revision);
        }
        self.newest = revision;
        self.commits.push(Commit { revision, changes });
        Ok(revision)
    }

    /// Returns the newest revision, including the group.
    pub(crate) fn newest(&self) -> Revision {
        self.newest
    }

    /// Returns true if the group changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Returns the commits to publish once the group is durable.
    pub(crate) fn into_commits(self) -> Vec<Commit> {
        self.commits
    }

    fn current(&self, key: &str) -> Option<Entry> {
        match self.written.get(key) {
            Some(entry) => entry.clone(),
            None => self.index.get(key),
        }
    }

    fn check_expectations(&self, transaction: &Transaction) -> Result<(), CommitError> {
        for (key, expectation) in &transaction.expectations {
            let current = self.current(key);
            if !expectation.holds(current.as_ref().map(|entry| entry.modified)) {
                return Err(CommitError::Conflict {
                    key: key.clone(),
                    current,
                });
            }
        }
        Ok(())
    }

    fn change(&self, write: &Write, revision: Revision) -> Result<Option<Change>, CommitError> {
        let with_revision = |key: &Key, value: &Value| {
            let reason = "the offset of its revision is out of bounds";
            value
                .with_revision(revision)
                .ok_or_else(|| CommitError::Malformed {
                    key: key.clone(),
                    reason,
                })
        };
        match write {
            Write::Put(key, value) => {
                let value = with_revision(key, value)?;
                Ok(Some(Change::Put {
                    key: key.clone(),
                    value,
                }))
            }
            Write::Delete { key, .. } if self.current(key).is_none() => Ok(None),
            Write::Delete { key, last } => {
                let last = last.as_ref().map(|value| with_revision(key, value)).transpose()?;
                Ok(Some(Change::Delete {
                    key: key.clone(),
                    last,
                }))
            }
        }
    }

    fn apply_change(&mut self, change: &Change, revision: Revision) {
        match change {
            Change::Put { key, value } => {
                let created = self.current(key).map_or(revision, |entry| entry.created);
                let entry = Entry {
                    key: key.clone(),
                    value: value.clone(),
                    created,
                    modified: revision,
                };
                self.written.insert(key.clone(), Some(entry));
            }
            Change::Delete { key, .. } => {
                self.written.insert(key.clone(), None);
            }
        }
    }
}

/// Checks that a transaction writes each key at most once.
pub(crate) fn check_keys_unique(writes: &[Write]) -> Result<(), CommitError> {
    let mut keys = HashSet::with_capacity(writes.len());
    for write in writes {
        let (Write::Put(key, _) | Write::Delete { key, .. }) = write;
        if !keys.insert(key) {
            return Err(CommitError::Malformed {
                key: key.clone(),
                reason: "a transaction may write a key only once",
            });
        }
    }
    Ok(())
}
