//! State under the lock of the index: keys with their versions, and the history.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry as Slot};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::chain::{Chain, Version};
use super::log::Log;
use super::{Change, Commit, HistoryLimits, Listing};
use crate::{Entry, Event, EventKind, Key, Revision};

/// Memory of an event in bytes: the event, its slots in two logs, and the slot of the superseded version. Values that
/// only the event keeps are not included.
const EVENT_OVERHEAD_BYTES: usize = 200;

/// Keys and history of the index.
pub(super) struct State {
    pub(super) oldest: Revision,
    limits: HistoryLimits,
    keys: BTreeMap<Key, Chain>,
    /// All events, in the order of their removal.
    everything: Log,
    /// The same events by the first segment of their keys. Logs are never removed: the program, not its clients,
    /// names segments.
    by_segment: HashMap<Box<str>, Log>,
    history_bytes: usize,
}

/// Returns the first segment of a key or prefix with its slashes: `/services/` of `/services/default/web`. `None`
/// if it is incomplete.
pub(super) fn segment(key: &str) -> Option<&str> {
    let length = key.strip_prefix('/')?.find('/')? + 2;
    key.get(..length)
}

impl State {
    pub(super) fn new(limits: HistoryLimits, oldest: Revision, entries: Vec<Entry>) -> State {
        let chain = |entry: Entry| {
            let Entry {
                key,
                value,
                created,
                modified,
            } = entry;
            (
                key,
                Chain::new(Version {
                    created,
                    modified,
                    value: Some(value),
                }),
            )
        };
        State {
            oldest,
            limits,
            keys: entries.into_iter().map(chain).collect(),
            everything: Log::new(),
            by_segment: HashMap::new(),
            history_bytes: 0,
        }
    }

    pub(super) fn newest(&self, key: &str) -> Option<Entry> {
        let (key, chain) = self.keys.get_key_value(key)?;
        entry(key, chain.newest())
    }

    pub(super) fn entry_at(&self, key: &str, at: Revision) -> Option<Entry> {
        let (key, chain) = self.keys.get_key_value(key)?;
        entry(key, chain.at(at)?)
    }

    /// Adds entries to a listing until `step_keys` keys are visited. Returns the last visited key, or `None` at the
    /// end of the prefix.
    pub(super) fn list_step(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        step_keys: usize,
        listing: &mut Listing,
    ) -> Option<Key> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = self.keys.range::<str, _>((start, Bound::Unbounded));
        let mut visited = 0;
        for (key, chain) in range.take_while(|(key, _)| key.starts_with(prefix)) {
            visited += 1;
            if let Some(version) = chain
                .at(listing.revision)
                .filter(|version| version.value.is_some())
            {
                if listing.entries.len() < limit {
                    listing.entries.extend(entry(key, version));
                } else {
                    listing.remaining += 1;
                }
            }
            if visited == step_keys {
                return Some(key.clone());
            }
        }
        None
    }

    pub(super) fn has_log(&self, segment: &str) -> bool {
        self.by_segment.contains_key(segment)
    }

    pub(super) fn make_log(&mut self, segment: &str) {
        self.by_segment.entry(segment.into()).or_insert_with(Log::new);
    }

    /// Returns the log of a segment. Without such a log, returns the log of all events, which contains those of each
    /// segment.
    pub(super) fn log(&self, segment: Option<&str>) -> &Log {
        segment
            .and_then(|segment| self.by_segment.get(segment))
            .unwrap_or(&self.everything)
    }

    /// Applies transactions in their order.
    pub(super) fn apply(&mut self, commits: Vec<Commit>) {
        for Commit { revision, changes } in commits {
            for change in changes {
                let event = match change {
                    Change::Put { key, value } => Some(self.put(key, value, revision)),
                    Change::Delete { key, last } => self.delete(&key, last, revision),
                };
                if let Some(event) = event {
                    self.record(event);
                }
            }
        }
    }

    /// Returns the senders that wake the watches of changed logs.
    pub(super) fn take_changed(&mut self) -> Vec<watch::Sender<()>> {
        let logs = self.by_segment.values_mut().chain([&mut self.everything]);
        logs.filter_map(Log::take_changed).collect()
    }

    /// Removes the oldest revisions until the history is within its limits.
    pub(super) fn evict_over_limits(&mut self) -> Vec<Arc<Event>> {
        let mut removed = Vec::new();
        while self.everything.len() > self.limits.events_max || self.history_bytes > self.limits.bytes_max {
            let Some(oldest) = self.everything.oldest_revision() else {
                break;
            };
            self.remove_revision(oldest, &mut removed);
        }
        removed
    }

    /// Removes revisions before `revision`, about `events_max` events at a time. Returns the removed events, and true
    /// if no such revision is left.
    pub(super) fn compact_step(&mut self, revision: Revision, events_max: usize) -> (Vec<Arc<Event>>, bool) {
        let mut removed = Vec::new();
        while let Some(oldest) = self
            .everything
            .oldest_revision()
            .filter(|oldest| *oldest <= revision)
        {
            if removed.len() >= events_max {
                return (removed, false);
            }
            self.remove_revision(oldest, &mut removed);
        }
        self.oldest = self.oldest.max(revision);
        (removed, true)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.everything.len() == 0 && self.history_bytes == 0
    }

    /// Adds a version of a key, and returns the event for watches.
    fn put(&mut self, key: Key, value: Bytes, revision: Revision) -> Event {
        let version = |created| Version {
            created,
            modified: revision,
            value: Some(value.clone()),
        };
        let (key, previous) = match self.keys.entry(key) {
            Slot::Vacant(slot) => {
                let key = slot.key().clone();
                slot.insert(Chain::new(version(revision)));
                (key, None)
            }
            Slot::Occupied(mut slot) => {
                let Version {
                    created,
                    value: previous,
                    ..
                } = slot.get().newest().clone();
                let created = if previous.is_some() { created } else { revision };
                slot.get_mut().push(version(created));
                (slot.key().clone(), previous)
            }
        };
        let kind = if previous.is_some() {
            EventKind::Updated
        } else {
            EventKind::Created
        };
        Event {
            kind,
            key,
            value,
            previous,
            revision,
        }
    }

    fn delete(&mut self, key: &Key, last: Option<Bytes>, revision: Revision) -> Option<Event> {
        let chain = self.keys.get_mut(key)?;
        let Version { created, value, .. } = chain.newest().clone();
        let previous = value?;
        chain.push(Version {
            created,
            modified: revision,
            value: None,
        });
        let value = last.unwrap_or_else(|| previous.clone());
        Some(Event {
            kind: EventKind::Deleted,
            key: key.clone(),
            value,
            previous: Some(previous),
            revision,
        })
    }

    fn record(&mut self, event: Event) {
        self.history_bytes += cost_bytes(&event);
        let event = Arc::new(event);
        self.everything.push(event.clone());
        if let Some(segment) = segment(&event.key) {
            match self.by_segment.get_mut(segment) {
                Some(log) => log.push(event),
                None => {
                    let mut log = Log::new();
                    log.push(event.clone());
                    self.by_segment.insert(segment.into(), log);
                }
            }
        }
    }

    /// Removes the events of the oldest revision; the next one becomes the oldest readable revision.
    fn remove_revision(&mut self, revision: Revision, removed: &mut Vec<Arc<Event>>) {
        self.oldest = self.oldest.max(revision);
        while self
            .everything
            .oldest_revision()
            .is_some_and(|oldest| oldest <= revision)
        {
            let Some(event) = self.everything.remove_oldest() else {
                break;
            };
            self.history_bytes = self.history_bytes.saturating_sub(cost_bytes(&event));
            if let Some(log) = segment(&event.key).and_then(|segment| self.by_segment.get_mut(segment)) {
                log.remove_oldest();
            }
            if self
                .keys
                .get_mut(&event.key)
                .is_some_and(|chain| chain.compact_before(revision))
            {
                self.keys.remove(&event.key);
            }
            removed.push(event);
        }
    }
}

fn entry(key: &Key, version: &Version) -> Option<Entry> {
    let Version {
        created,
        modified,
        value,
    } = version;
    let value = value.clone()?;
    Some(Entry {
        key: key.clone(),
        value,
        created: *created,
        modified: *modified,
    })
}

/// Returns the memory that removing an event frees. The value of a created key belongs to the current state, or to
/// the event that supersedes it.
fn cost_bytes(event: &Event) -> usize {
    let last = if event.kind == EventKind::Deleted {
        event.value.len()
    } else {
        0
    };
    EVENT_OVERHEAD_BYTES + last + event.previous.as_ref().map_or(0, Bytes::len)
}
