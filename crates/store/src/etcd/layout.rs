//! How the store lies in etcd: names of keys, and what is in the values. Pure.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/services/default/web` | an object: the offset at which its revision belongs, a newline, its bytes without the revision; `-` in the place of the offset if it does not carry one, or if it is sealed |
//! | `PREFIX/.layout` | the number of this layout, and what is added to etcd's revisions |
//! | `PREFIX/.commit` | written by every transaction: a random mark, and the last state of objects that it deletes |
//! | `PREFIX/.compaction` | the revision up to which history was compacted last, so that one of several servers does it |
//!
//! An object's revision is etcd's `mod_revision` of its key plus the offset of `.layout`: it is known only
//! when a transaction has happened, so it cannot be in the value. The offset is 0 unless the content was copied
//! from a store that had come further, or etcd was restored from an older snapshot: revisions only grow.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{Key, Revision, Value};

/// The layout described above.
pub(super) const LAYOUT_VERSION: u64 = 1;

/// Where the layout is written down.
pub(super) const LAYOUT: &str = "/.layout";
/// What every transaction writes.
pub(super) const COMMIT: &str = "/.commit";
/// How far history was compacted.
pub(super) const COMPACTION: &str = "/.compaction";
/// Keys of the engine's own begin like this; those of objects never do, since their first segment is a
/// resource or an API group.
const OWN: &str = "/.";

/// What the engine's keys begin with in etcd, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(text: &str) -> Prefix {
        Prefix(text.trim_end_matches('/').to_owned())
    }

    /// etcd's key of a key of ours.
    pub(super) fn key(&self, key: &str) -> Bytes {
        Bytes::from([self.0.as_bytes(), key.as_bytes()].concat())
    }

    /// First and end of the range of all keys.
    pub(super) fn range(&self) -> (Bytes, Bytes) {
        (self.key("/"), self.key("0"))
    }

    /// Our key of a key of etcd's; `None` if it is not one.
    pub(super) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(&self.0).filter(|key| key.starts_with('/'))
    }
}

/// Whether a key can be an object's.
pub(super) fn is_object(key: &str) -> bool {
    key.starts_with('/') && !key.starts_with(OWN)
}

/// What is written at [`LAYOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: u64,
    /// Added to etcd's revisions.
    pub(super) revision_offset: u64,
    /// False while a copy is being written, which is good for nothing until it is whole.
    pub(super) is_complete: bool,
}

impl Layout {
    pub(super) fn new(revision_offset: u64) -> Layout {
        Layout {
            version: LAYOUT_VERSION,
            revision_offset,
            is_complete: true,
        }
    }

    pub(super) fn encoded(self) -> Bytes {
        let Layout {
            version,
            revision_offset,
            is_complete,
        } = self;
        let state = if is_complete { "complete" } else { "being-copied" };
        Bytes::from(format!(
            "portolan-store {version}\nrevision-offset {revision_offset}\n{state}\n"
        ))
    }

    /// `None` if this is no layout of ours. Of a newer version only the number is read.
    pub(super) fn parse(bytes: &[u8]) -> Option<Layout> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let version = lines.next()?.strip_prefix("portolan-store ")?.parse().ok()?;
        if version != LAYOUT_VERSION {
            let layout = Layout::new(0);
            return Some(Layout { version, ..layout });
        }
        let revision_offset = lines.next()?.strip_prefix("revision-offset ")?.parse().ok()?;
        let is_complete = lines.next()? == "complete";
        Some(Layout {
            version,
            revision_offset,
            is_complete,
        })
    }
}

/// The offset between revisions of etcd and of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset(pub(super) u64);

impl Offset {
    /// The smallest with which all that etcd writes after its revision `now` gets revisions above this one.
    pub(super) fn after(now: i64, revision: Revision) -> Offset {
        Offset(revision.0.saturating_sub(u64::try_from(now).unwrap_or(0)))
    }

    /// The store's revision for one of etcd's, which are positive.
    pub(super) fn revision(self, etcd: i64) -> Revision {
        Revision(u64::try_from(etcd).unwrap_or(0).saturating_add(self.0))
    }

    /// etcd's revision for one of the store's. A revision before the offset never was etcd's: it gets one that
    /// no key has, not even an absent one.
    pub(super) fn etcd(self, revision: Revision) -> i64 {
        match revision.0.checked_sub(self.0) {
            Some(etcd @ 1..) => i64::try_from(etcd).unwrap_or(-1),
            _ => -1,
        }
    }
}

/// A value as it lies in etcd.
pub(super) fn stored(value: &Value) -> Bytes {
    value.packed()
}

/// Reads what [`stored`] wrote; `None` if it did not.
pub(super) fn parse_stored(stored: &Bytes) -> Option<Value> {
    Value::unpack(stored)
}

/// What a transaction writes at [`COMMIT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitRecord {
    /// A random number: tells whether etcd's history is the one that was seen before.
    pub(super) mark: u64,
    /// The last states of deleted objects, for watchers.
    pub(super) last: HashMap<Key, Value>,
}

impl CommitRecord {
    pub(super) fn encoded(&self) -> Bytes {
        let mut encoded = format!("{:016x}\n", self.mark).into_bytes();
        for (key, value) in &self.last {
            let value = stored(value);
            encoded.extend_from_slice(format!("{} {}\n{key}", key.len(), value.len()).as_bytes());
            encoded.extend_from_slice(&value);
        }
        Bytes::from(encoded)
    }

    /// `None` if this is none of ours.
    pub(super) fn parse(encoded: &Bytes) -> Option<CommitRecord> {
        let (mark, mut rest) = line(encoded)?;
        let mut record = CommitRecord {
            mark: u64::from_str_radix(mark, 16).ok()?,
            last: HashMap::new(),
        };
        while !rest.is_empty() {
            let at = encoded.len() - rest.len();
            let (lengths, body) = line(rest)?;
            let (key_length, value_length) = lengths.split_once(' ')?;
            let (key_length, value_length): (usize, usize) =
                (key_length.parse().ok()?, value_length.parse().ok()?);
            let (key, body) = body.split_at_checked(key_length)?;
            let value_at = at + lengths.len() + 1 + key_length;
            rest = body.get(value_length..)?;
            let value = parse_stored(&encoded.slice(value_at..value_at + value_length))?;
            record.last.insert(std::str::from_utf8(key).ok()?.into(), value);
        }
        Some(record)
    }
}

/// The text up to the first newline, and what is behind that.
fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests;
