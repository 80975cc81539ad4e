//! Reading everything, and finding out whether what is there is ours.

use bytes::Bytes;
use tonic::Status;

use super::connection::{Connection, told};
use super::layout::{
    COMMIT, CommitRecord, LAYOUT, LAYOUT_VERSION, Layout, Offset, Prefix, is_object, parse_stored,
};
use super::transaction::{found, get, is_at, put};
use super::wire::{KeyValue, RangeRequest, TxnRequest};
use crate::{Record, StoreError};

/// Keys of a page: with objects as large as etcd takes them, a page fits an answer.
const PAGE_KEYS: i64 = 150;

/// A point in etcd's history by which it is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landmark {
    /// etcd's revision of the newest commit record.
    pub(super) mod_revision: i64,
    /// Its mark.
    pub(super) mark: u64,
}

/// What reading everything told beside the objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    /// etcd's revision at which everything was read.
    pub(super) at: i64,
    pub(super) landmark: Landmark,
    /// The newest revision of the store, of etcd's counting.
    pub(super) newest: i64,
}

/// The layout that is written down in etcd, if any, and etcd's revision of it (0 if there is none).
pub(super) async fn read_layout(
    connection: &Connection,
    prefix: &Prefix,
) -> Result<(Option<Layout>, i64), StoreError> {
    let key = prefix.key(LAYOUT);
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let answer = connection.range(request).await.map_err(|status| told(&status))?;
    let Some(kv) = answer.kvs.first() else {
        return Ok((None, 0));
    };
    let layout = Layout::parse(&kv.value).ok_or_else(|| {
        corrupt(
            prefix,
            "its key .layout cannot be read; choose another --etcd-prefix",
        )
    })?;
    if layout.version != LAYOUT_VERSION {
        let found = layout.version;
        let reason = format!(
            "it has layout {found} and this program knows {LAYOUT_VERSION}; it belongs to a newer version, start \
             that one"
        );
        return Err(corrupt(prefix, &reason));
    }
    Ok((Some(layout), kv.mod_revision))
}

/// The layout of a store that can be served; it is written down if there is nothing at all.
pub(super) async fn settle_layout(connection: &Connection, prefix: &Prefix) -> Result<Layout, StoreError> {
    match read_layout(connection, prefix).await? {
        (Some(layout), _) if layout.is_complete => Ok(layout),
        (Some(_), _) => Err(corrupt(
            prefix,
            "a copy into it is under way or was broken off; repeat it with --overwrite",
        )),
        (None, _) => {
            if !is_empty(connection, prefix).await? {
                let reason = "another program keeps its keys there; choose another --etcd-prefix";
                return Err(corrupt(prefix, reason));
            }
            begin(connection, prefix, Layout::new(0)).await?;
            // Another server may have been quicker.
            match read_layout(connection, prefix).await? {
                (Some(layout), _) if layout.is_complete => Ok(layout),
                _ => Err(corrupt(prefix, "somebody changes it now; try again")),
            }
        }
    }
}

/// Whether there is no key with our prefix.
pub(super) async fn is_empty(connection: &Connection, prefix: &Prefix) -> Result<bool, StoreError> {
    let (key, range_end) = prefix.range();
    let any = RangeRequest {
        key,
        range_end,
        limit: 1,
        keys_only: true,
        ..RangeRequest::default()
    };
    let answer = connection.range(any).await.map_err(|status| told(&status))?;
    Ok(answer.kvs.is_empty())
}

/// Writes down a layout and a first commit record where there is no layout yet.
pub(super) async fn begin(
    connection: &Connection,
    prefix: &Prefix,
    layout: Layout,
) -> Result<(), StoreError> {
    let record = CommitRecord {
        mark: fastrand::u64(..),
        ..CommitRecord::default()
    };
    let request = TxnRequest {
        compare: vec![is_at(prefix.key(LAYOUT), 0)],
        success: vec![
            put(prefix.key(LAYOUT), layout.encoded()),
            put(prefix.key(COMMIT), record.encoded()),
        ],
        failure: Vec::new(),
    };
    let answer = connection.txn(request).await;
    answer.map(|_| ()).map_err(|status| told(&status))
}

/// Reads all objects, ascending by key, at one revision. A value that is none of ours is reported and skipped.
pub(super) async fn load(
    connection: &Connection,
    prefix: &Prefix,
    offset: Offset,
    mut each: impl FnMut(Record),
) -> Result<Loaded, StoreError> {
    let failed = |status: Status| told(&status);
    let (mut key, range_end) = prefix.range();
    let (mut at, mut newest) = (0, 0);
    let mut landmark = None;
    loop {
        let page = RangeRequest {
            key,
            range_end: range_end.clone(),
            limit: PAGE_KEYS,
            revision: at,
            ..RangeRequest::default()
        };
        let page = connection.range(page).await.map_err(failed)?;
        if at == 0 {
            at = page.header.map_or(0, |header| header.revision);
        }
        for kv in &page.kvs {
            let Some(name) = prefix.strip(&kv.key) else {
                continue;
            };
            if name == COMMIT {
                landmark = landmark_of(kv);
                newest = newest.max(kv.mod_revision);
            } else if is_object(name) {
                newest = newest.max(kv.mod_revision);
                match record(name, offset, kv) {
                    Some(record) => each(record),
                    None => tracing::error!(key = name, "a value in etcd cannot be read and is left out"),
                }
            }
        }
        match page.kvs.last() {
            Some(last) if page.more => key = Bytes::from([&last.key, &b"\0"[..]].concat()),
            _ => break,
        }
    }
    let landmark = landmark.ok_or_else(|| corrupt(prefix, "its commit record is missing or damaged"))?;
    Ok(Loaded { at, landmark, newest })
}

/// What there is of a landmark now.
pub(super) enum Recognition {
    /// History is the same as before.
    Same,
    /// History does not reach back that far any more.
    Forgotten,
    /// It is another history: the landmark never happened.
    Other,
}

/// Looks whether etcd's history contains a landmark and has come to `reached`.
pub(super) async fn recognize(
    connection: &Connection,
    prefix: &Prefix,
    landmark: Landmark,
    reached: i64,
) -> Result<(Recognition, i64), StoreError> {
    let request = TxnRequest {
        success: vec![get(prefix, COMMIT)],
        ..TxnRequest::default()
    };
    let answer = connection.txn(request).await.map_err(|status| told(&status))?;
    let now = answer.header.map_or(0, |header| header.revision);
    let present = answer.responses.into_iter().flat_map(found).next();
    let Some(present) = present.as_ref().and_then(landmark_of) else {
        return Ok((Recognition::Other, now));
    };
    if now < reached || present.mod_revision < landmark.mod_revision {
        return Ok((Recognition::Other, now));
    }
    if present.mod_revision == landmark.mod_revision {
        let is_same = present.mark == landmark.mark;
        return Ok((
            if is_same {
                Recognition::Same
            } else {
                Recognition::Other
            },
            now,
        ));
    }
    let then = RangeRequest {
        key: prefix.key(COMMIT),
        revision: landmark.mod_revision,
        ..RangeRequest::default()
    };
    let recognition = match connection.range(then).await {
        Ok(answer) if answer.kvs.first().and_then(landmark_of) == Some(landmark) => Recognition::Same,
        Ok(_) => Recognition::Other,
        // Compacted: etcd says so with this code.
        Err(status) if status.code() == tonic::Code::OutOfRange => Recognition::Forgotten,
        Err(status) => return Err(told(&status)),
    };
    Ok((recognition, now))
}

pub(super) fn landmark_of(kv: &KeyValue) -> Option<Landmark> {
    let record = CommitRecord::parse(&kv.value)?;
    Some(Landmark {
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
