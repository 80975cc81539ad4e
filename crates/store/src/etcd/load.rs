//! Loading of all data, and checks of the layout and of the history.

use bytes::Bytes;
use tonic::Status;

use super::connection::{Connection, store_error};
use super::layout::{
    COMMIT, CommitRecord, LAYOUT, LAYOUT_VERSION, Layout, Offset, Prefix, is_object, parse_stored,
};
use super::transaction::{get, has_revision, key_values, put};
use super::wire::{KeyValue, RangeRequest, TxnRequest};
use crate::{Record, StoreError};

/// Keys per page: with objects of the largest size that etcd accepts, a page fits into a response.
const PAGE_KEYS: i64 = 150;

/// A commit that identifies etcd's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistoryMark {
    /// etcd's revision of the commit record.
    pub(super) mod_revision: i64,
    /// Mark of the commit record.
    pub(super) mark: u64,
}

/// Result of loading all data, alongside the objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadResult {
    /// etcd's revision of the loaded data.
    pub(super) revision: i64,
    pub(super) history_mark: HistoryMark,
    /// Newest revision of the store, as a revision of etcd.
    pub(super) newest: i64,
}

/// Reads the layout, and etcd's revision of it (0 if there is no layout).
pub(super) async fn read_layout(
    connection: &Connection,
    prefix: &Prefix,
) -> Result<(Option<Layout>, i64), StoreError> {
    let key = prefix.key(LAYOUT);
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let response = connection
        .range(request)
        .await
        .map_err(|status| store_error(&status))?;
    let Some(kv) = response.kvs.first() else {
        return Ok((None, 0));
    };
    let layout = Layout::parse(&kv.value).ok_or_else(|| {
        corrupt(
            prefix,
            "the key .layout is malformed; choose another --etcd-prefix",
        )
    })?;
    if layout.version != LAYOUT_VERSION {
        let found = layout.version;
        let reason = format!(
            "expected layout {LAYOUT_VERSION}, found layout {found} of a newer version; start that version"
        );
        return Err(corrupt(prefix, &reason));
    }
    Ok((Some(layout), kv.mod_revision))
}

/// Returns the layout of a usable store; writes one if the prefix is empty.
pub(super) async fn ensure_layout(connection: &Connection, prefix: &Prefix) -> Result<Layout, StoreError> {
    match read_layout(connection, prefix).await? {
        (Some(layout), _) if layout.is_complete => Ok(layout),
        (Some(_), _) => Err(corrupt(
            prefix,
            "a copy into it is in progress or was interrupted; repeat it with --overwrite",
        )),
        (None, _) => {
            if !is_empty(connection, prefix).await? {
                let reason = "the prefix contains keys of another program; choose another --etcd-prefix";
                return Err(corrupt(prefix, reason));
            }
            write_first_layout(connection, prefix, Layout::new(0)).await?;
            // Another server may have been faster.
            match read_layout(connection, prefix).await? {
                (Some(layout), _) if layout.is_complete => Ok(layout),
                _ => Err(corrupt(prefix, "another process is changing it; retry")),
            }
        }
    }
}

/// Returns true if no key has the prefix.
pub(super) async fn is_empty(connection: &Connection, prefix: &Prefix) -> Result<bool, StoreError> {
    let (key, range_end) = prefix.range();
    let any = RangeRequest {
        key,
        range_end,
        limit: 1,
        keys_only: true,
        ..RangeRequest::default()
    };
    let response = connection
        .range(any)
        .await
        .map_err(|status| store_error(&status))?;
    Ok(response.kvs.is_empty())
}

/// Writes a layout and a first commit record, if there is no layout yet.
pub(super) async fn write_first_layout(
    connection: &Connection,
    prefix: &Prefix,
    layout: Layout,
) -> Result<(), StoreError> {
    let record = CommitRecord {
        mark: fastrand::u64(..),
        ..CommitRecord::default()
    };
    let request = TxnRequest {
        compare: vec![has_revision(prefix.key(LAYOUT), 0)],
        success: vec![
            put(prefix.key(LAYOUT), layout.encode()),
            put(prefix.key(COMMIT), record.encode()),
        ],
        failure: Vec::new(),
    };
    let response = connection.txn(request).await;
    response.map(|_| ()).map_err(|status| store_error(&status))
}

/// Loads all objects, ascending by key, at one revision. A malformed value is logged and skipped.
pub(super) async fn load(
    connection: &Connection,
    prefix: &Prefix,
    offset: Offset,
    mut each: impl FnMut(Record),
) -> Result<LoadResult, StoreError> {
    let to_store_error = |status: Status| store_error(&status);
    let (mut key, range_end) = prefix.range();
    let (mut revision, mut newest) = (0, 0);
    let mut history_mark = None;
    loop {
        let page = RangeRequest {
            key,
            range_end: range_end.clone(),
            limit: PAGE_KEYS,
            revision,
            ..RangeRequest::default()
        };
        let page = connection.range(page).await.map_err(to_store_error)?;
        if revision == 0 {
            revision = page.header.map_or(0, |header| header.revision);
        }
        for kv in &page.kvs {
            let Some(name) = prefix.strip(&kv.key) else {
                continue;
            };
            if name == COMMIT {
                history_mark = history_mark_of(kv);
                newest = newest.max(kv.mod_revision);
            } else if is_object(name) {
                newest = newest.max(kv.mod_revision);
                match record(name, offset, kv) {
                    Some(record) => each(record),
                    None => tracing::error!(key = name, "malformed value in etcd skipped"),
                }
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => key = Bytes::from([&last.key, &b"\0"[..]].concat()),
            _ => break,
        }
    }
    let history_mark =
        history_mark.ok_or_else(|| corrupt(prefix, "its commit record is missing or malformed"))?;
    Ok(LoadResult {
        revision,
        history_mark,
        newest,
    })
}

/// Result of comparing etcd's history with a mark.
pub(super) enum HistoryCheck {
    /// The history contains the mark.
    Same,
    /// The history at the mark is compacted.
    Compacted,
    /// The history is another one: it never contained the mark.
    ForeignHistory,
}

/// Checks that etcd's history contains a mark and has reached `reached`. Also returns etcd's current revision.
pub(super) async fn check_history_mark(
    connection: &Connection,
    prefix: &Prefix,
    history_mark: HistoryMark,
    reached: i64,
) -> Result<(HistoryCheck, i64), StoreError> {
    let request = TxnRequest {
        success: vec![get(prefix, COMMIT)],
        ..TxnRequest::default()
    };
    let response = connection
        .txn(request)
        .await
        .map_err(|status| store_error(&status))?;
    let now = response.header.map_or(0, |header| header.revision);
    let present = response.responses.into_iter().flat_map(key_values).next();
    let Some(present) = present.as_ref().and_then(history_mark_of) else {
        return Ok((HistoryCheck::ForeignHistory, now));
    };
    if now < reached || present.mod_revision < history_mark.mod_revision {
        return Ok((HistoryCheck::ForeignHistory, now));
    }
    if present.mod_revision == history_mark.mod_revision {
        let is_same = present.mark == history_mark.mark;
        return Ok((
            if is_same {
                HistoryCheck::Same
            } else {
                HistoryCheck::ForeignHistory
            },
            now,
        ));
    }
    let then = RangeRequest {
        key: prefix.key(COMMIT),
        revision: history_mark.mod_revision,
        ..RangeRequest::default()
    };
    let check = match connection.range(then).await {
        Ok(response) if response.kvs.first().and_then(history_mark_of) == Some(history_mark) => {
            HistoryCheck::Same
        }
        Ok(_) => HistoryCheck::ForeignHistory,
        // etcd reports a compacted revision with this code.
        Err(status) if status.code() == tonic::Code::OutOfRange => HistoryCheck::Compacted,
        Err(status) => return Err(store_error(&status)),
    };
    Ok((check, now))
}

pub(super) fn history_mark_of(kv: &KeyValue) -> Option<HistoryMark> {
    let record = CommitRecord::parse(&kv.value)?;
    Some(HistoryMark {
        mod_revision: kv.mod_revision,
        mark: record.mark,
    })
}

pub(super) fn corrupt(prefix: &Prefix, reason: &str) -> StoreError {
    let key = prefix.key("");
    StoreError::Corrupt {
        reason: format!("etcd at {}: {reason}", String::from_utf8_lossy(&key)),
    }
}

fn record(key: &str, offset: Offset, kv: &KeyValue) -> Option<Record> {
    Some(Record {
        key: key.into(),
        value: parse_stored(&kv.value)?,
        created: offset.revision(kv.create_revision),
        modified: offset.revision(kv.mod_revision),
    })
}
