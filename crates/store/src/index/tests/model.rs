//! The index without regard to cost: each read replays all transactions.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::index::state::segment;
use crate::index::{Change, Commit, Listing};
use crate::{Entry, Event, EventKind, Revision};

/// The index as a list of all transactions.
pub(super) struct Model {
    pub(super) oldest: Revision,
    pub(super) events_max: usize,
    commits: Vec<Commit>,
}

impl Model {
    pub(super) fn new(events_max: usize) -> Model {
        Model {
            oldest: Revision(0),
            events_max,
            commits: Vec::new(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.commits.last().map_or(Revision(0), |commit| commit.revision)
    }

    pub(super) fn publish(&mut self, commit: Commit) {
        self.commits.push(commit);
        loop {
            let events = self.events("", self.oldest);
            if events.len() <= self.events_max {
                return;
            }
            self.oldest = events[0].revision;
        }
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        self.oldest = self.oldest.max(revision);
    }

    pub(super) fn is_readable(&self, at: Revision) -> bool {
        (self.oldest..=self.revision()).contains(&at)
    }

    pub(super) fn get(&self, key: &str, at: Revision) -> Option<Entry> {
        self.replay(at).0.remove(key)
    }

    /// Lists the keys with a prefix at a revision, as the index does.
    pub(super) fn list(&self, prefix: &str, at: Revision, after: Option<&str>, limit: usize) -> Listing {
        let state = self.replay(at).0;
        let matching = state.values().filter(|entry| entry.key.starts_with(prefix));
        let mut entries: Vec<Entry> = matching
            .filter(|entry| after.is_none_or(|after| &*entry.key > after))
            .cloned()
            .collect();
        let remaining = entries.len().saturating_sub(limit);
        entries.truncate(limit);
        Listing {
            entries,
            revision: at,
            remaining,
        }
    }

    /// Returns all events of a prefix ever, after a revision.
    pub(super) fn events(&self, prefix: &str, after: Revision) -> Vec<Event> {
        let events = self.replay(self.revision()).1;
        events
            .into_iter()
            .filter(|event| event.revision > after && event.key.starts_with(prefix))
            .collect()
    }

    /// Returns the number of removed events that a watch has not read, if it has read all events up to a revision.
    pub(super) fn lag(&self, prefix: &str, read: Revision) -> usize {
        let log = segment(prefix).unwrap_or("");
        self.events(log, read)
            .iter()
            .filter(|event| event.revision <= self.oldest)
            .count()
    }

    /// Returns the keys and all events up to a revision.
    fn replay(&self, until: Revision) -> (BTreeMap<String, Entry>, Vec<Event>) {
        let (mut state, mut events) = (BTreeMap::<String, Entry>::new(), Vec::new());
        for Commit { revision, changes } in &self.commits {
            if *revision > until {
                break;
            }
            for change in changes {
                let (Change::Put { key, .. } | Change::Delete { key, .. }) = change;
                let before = state.get(&**key).cloned();
                let previous = before.as_ref().map(|entry| entry.value.clone());
                let (kind, value) = match change {
                    Change::Put { value, .. } => {
                        let created = before.as_ref().map_or(*revision, |entry| entry.created);
                        let value = value.clone();
                        let entry = Entry {
                            key: key.clone(),
                            value: value.clone(),
                            created,
                            modified: *revision,
                        };
                        state.insert(key.to_string(), entry);
                        (
                            if before.is_some() {
                                EventKind::Updated
                            } else {
                                EventKind::Created
                            },
                            value,
                        )
                    }
                    Change::Delete { last, .. } => {
                        let Some(entry) = state.remove(&**key) else {
                            continue;
                        };
                        (EventKind::Deleted, last.clone().unwrap_or(entry.value))
                    }
                };
                events.push(Event {
                    kind,
                    key: key.clone(),
                    value,
                    previous,
                    revision: *revision,
                });
            }
        }
        (state, events)
    }
}

/// Returns a value short enough to read in a failure.
pub(super) fn value(number: u8) -> Bytes {
    Bytes::from(number.to_string())
}
