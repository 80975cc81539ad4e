//! Layout of the store in etcd: keys and values. Pure.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/services/default/web` | an object: the offset of its revision, a newline, its bytes without the
//! revision; `-` instead of the offset if it has no offset, or if the value is sealed |
//! | `PREFIX/.layout` | the version of this layout, and the offset that is added to etcd's revisions |
//! | `PREFIX/.commit` | written by each transaction: a random mark, and the last states of objects that it deletes
//! |
//! | `PREFIX/.compaction` | the revision up to which history was last compacted, so that one of several servers
//! compacts |
//!
//! The revision of an object is etcd's `mod_revision` of its key plus the offset in `.layout`. The engine knows it
//! only after the transaction, so it cannot be in the value. The offset is 0 unless the data was copied from a store
//! with larger revisions, or etcd was restored from an older snapshot. Revisions only grow.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{Key, Revision, Value};

/// Version of the layout described above.
pub(super) const LAYOUT_VERSION: u64 = 1;

/// Key of the layout.
pub(super) const LAYOUT: &str = "/.layout";
/// Key that each transaction writes.
pub(super) const COMMIT: &str = "/.commit";
/// Key of the compacted revision.
pub(super) const COMPACTION: &str = "/.compaction";
/// Prefix of the engine's own keys. Keys of objects never have it, because their first segment is a resource or an
/// API group.
const ENGINE_KEY_PREFIX: &str = "/.";

/// Prefix of all keys in etcd, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix(String);

impl Prefix {
    pub(super) fn new(text: &str) -> Prefix {
        Prefix(text.trim_end_matches('/').to_owned())
    }

    /// Returns the key in etcd for a key of the store.
    pub(super) fn key(&self, key: &str) -> Bytes {
        Bytes::from([self.0.as_bytes(), key.as_bytes()].concat())
    }

    /// Returns the first key and the end of the range of all keys.
    pub(super) fn range(&self) -> (Bytes, Bytes) {
        (self.key("/"), self.key("0"))
    }

    /// Returns the key of the store for a key in etcd; `None` if it has another prefix.
    pub(super) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(&self.0).filter(|key| key.starts_with('/'))
    }
}

/// Returns true if a key can belong to an object.
pub(super) fn is_object(key: &str) -> bool {
    key.starts_with('/') && !key.starts_with(ENGINE_KEY_PREFIX)
}

/// Value of [`LAYOUT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) version: u64,
    /// Offset that is added to etcd's revisions.
    pub(super) revision_offset: u64,
    /// False while a copy is being written, which cannot be used before it is complete.
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

    pub(super) fn encode(self) -> Bytes {
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

    /// Parses a layout; `None` if it is malformed. Of a newer version, only the version is read.
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

/// Offset between revisions of etcd and of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset(pub(super) u64);

impl Offset {
    /// Returns the smallest offset with which all writes after etcd's revision `now` get revisions above
    /// `revision`.
    pub(super) fn after(now: i64, revision: Revision) -> Offset {
        Offset(revision.0.saturating_sub(u64::try_from(now).unwrap_or(0)))
    }

    /// Returns the revision of the store for a revision of etcd, which is positive.
    pub(super) fn revision(self, etcd: i64) -> Revision {
        Revision(u64::try_from(etcd).unwrap_or(0).saturating_add(self.0))
    }

    /// Returns etcd's revision for one of the store's. etcd never had a revision below the offset. For such a revision,
    /// returns one that no key has, and that an absent key does not have either.
    pub(super) fn etcd(self, revision: Revision) -> i64 {
        match revision.0.checked_sub(self.0) {
            Some(etcd @ 1..) => i64::try_from(etcd).unwrap_or(-1),
            _ => -1,
        }
    }
}

/// Encodes a value for etcd.
pub(super) fn encode_value(value: &Value) -> Bytes {
    value.packed()
}

/// Decodes the output of [`encode_value`]; `None` for other bytes.
pub(super) fn parse_stored(stored: &Bytes) -> Option<Value> {
    Value::unpack(stored)
}

/// Value that each transaction writes at [`COMMIT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitRecord {
    /// Random number that identifies the commit, to detect another history.
    pub(super) mark: u64,
    /// Last states of deleted objects, for watchers.
    pub(super) last: HashMap<Key, Value>,
}

impl CommitRecord {
    pub(super) fn encode(&self) -> Bytes {
        let mut encoded = format!("{:016x}\n", self.mark).into_bytes();
        for (key, value) in &self.last {
            let value = encode_value(value);
            encoded.extend_from_slice(format!("{} {}\n{key}", key.len(), value.len()).as_bytes());
            encoded.extend_from_slice(&value);
        }
        Bytes::from(encoded)
    }

    /// Parses an encoded record. Returns `None` for a record of another program.
    pub(super) fn parse(encoded: &Bytes) -> Option<CommitRecord> {
        let (mark, mut rest) = split_line(encoded)?;
        let mut record = CommitRecord {
            mark: u64::from_str_radix(mark, 16).ok()?,
            last: HashMap::new(),
        };
        while !rest.is_empty() {
            let at = encoded.len() - rest.len();
            let (lengths, body) = split_line(rest)?;
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

/// Splits bytes at the first newline.
fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests;
