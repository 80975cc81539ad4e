//! Conversion of etcd's watch events to commits of the index. Pure.

use bytes::Bytes;

use super::layout::{COMMIT, CommitRecord, LAYOUT, Layout, Offset, Prefix, is_object, parse_stored};
use super::load::HistoryMark;
use super::wire::{Event, EventType, KeyValue};
use crate::index::{Change, Commit};
use crate::{Key, Revision, Transformation};

/// Result of a batch of events.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Commits, ascending by revision.
    pub(super) commits: Vec<Commit>,
    /// Newest commit record among the events.
    pub(super) history_mark: Option<HistoryMark>,
    /// Newest layout, if it was written; `Some(None)` if it was removed.
    pub(super) layout: Option<Option<Layout>>,
    /// Newest revision of etcd among the events.
    pub(super) newest: Option<i64>,
}

/// Converts events, which are ascending by revision and contain all events of each revision.
pub(super) fn convert(
    prefix: &Prefix,
    offset: Offset,
    transformation: &Transformation,
    events: &[Event],
) -> Batch {
    let mut batch = Batch::default();
    let revision_of = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    for transaction in events.chunk_by(|one, other| revision_of(one) == revision_of(other)) {
        convert_transaction(prefix, offset, transformation, transaction, &mut batch);
    }
    batch
}

/// Adds the events of a transaction to the batch.
fn convert_transaction(
    prefix: &Prefix,
    offset: Offset,
    transformation: &Transformation,
    events: &[Event],
    batch: &mut Batch,
) {
    let named: Vec<(&str, bool, &KeyValue)> = events
        .iter()
        .filter_map(|event| {
            let kv = event.kv.as_ref()?;
            let is_deletion = event.kind == i32::from(EventType::Delete);
            Some((prefix.strip(&kv.key)?, is_deletion, kv))
        })
        .collect();
    let Some((_, _, first)) = named.first() else {
        return;
    };
    batch.newest = Some(first.mod_revision);
    let revision = offset.revision(first.mod_revision);
    let record = named
        .iter()
        .find(|(key, is_deletion, _)| *key == COMMIT && !is_deletion)
        .and_then(|(_, _, kv)| CommitRecord::parse(&kv.value));
    if let Some(record) = &record {
        batch.history_mark = Some(HistoryMark {
            mod_revision: first.mod_revision,
            mark: record.mark,
        });
    }
    let mut changes = Vec::new();
    for (key, is_deletion, kv) in &named {
        if *key == LAYOUT {
            batch.layout = Some(if *is_deletion {
                None
            } else {
                Layout::parse(&kv.value)
            });
        }
        if !is_object(key) {
            continue;
        }
        let key: Key = (*key).into();
        if *is_deletion {
            let last = record.as_ref().and_then(|record| record.last.get(&key));
            let last = last.map(|last| transformation.open_value(&key, last.clone()));
            let last = last.and_then(|last| last.with_revision(revision));
            transformation.forget(&key);
            changes.push(Change::Delete { key, last });
        } else {
            changes.extend(written_change(key, &kv.value, transformation, revision));
        }
    }
    if record.is_some() || !changes.is_empty() {
        batch.commits.push(Commit { revision, changes });
    }
}

/// Returns the change to a written value; `None` if the value is malformed.
fn written_change(
    key: Key,
    stored: &Bytes,
    transformation: &Transformation,
    revision: Revision,
) -> Option<Change> {
    let value = parse_stored(stored).map(|stored| transformation.open_value(&key, stored));
    let value = value.and_then(|value| value.with_revision(revision));
    if value.is_none() {
        tracing::error!(%key, "malformed value in etcd skipped");
    }
    Some(Change::Put { key, value: value? })
}

#[cfg(test)]
mod tests;
