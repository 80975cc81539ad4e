//! A cache of encoded watch events.
//!
//! Watches of one kind send the same events at about the same time. The cache therefore encodes each event once per
//! form, and keeps the latest events.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use store::{Key, Revision};

use crate::request::negotiation::Form;
use crate::verbs::printing::IncludeObject;

/// Cached events. A transaction has few events, and watches are at most some transactions apart.
const LINES_MAX: usize = 64;
/// Cached bytes: some of the largest objects, or all cached events of common size.
const LINES_BYTES_MAX: usize = 8 << 20;

/// The identity of an encoded event.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct EventKey {
    pub(super) revision: Revision,
    pub(super) key: Key,
    /// API group and version of the watch: some kinds are served from two.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) change: &'static str,
    pub(super) form: Form,
    pub(super) include: IncludeObject,
}

/// The latest encoded events.
#[derive(Default)]
pub(crate) struct EncodedEvents {
    lines: Mutex<Lines>,
}

/// Encoded events, and the sum of their bytes.
#[derive(Default)]
struct Lines {
    newest_last: VecDeque<(EventKey, Bytes)>,
    bytes: usize,
}

impl EncodedEvents {
    /// Returns the encoded event of `key`, and encodes it with `write` if it is not cached.
    pub(super) fn get_or_write(&self, key: EventKey, write: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(line) = self.lock().find(&key) {
            return line;
        }
        // Without the lock: the event of a large object takes long to encode, and watches of all clients use the
        // cache. An event is encoded at most once for each thread.
        let line = write();
        let mut lines = self.lock();
        if let Some(line) = lines.find(&key) {
            return line;
        }
        lines.bytes += line.len();
        lines.newest_last.push_back((key, line.clone()));
        while lines.newest_last.len() > LINES_MAX || lines.bytes > LINES_BYTES_MAX {
            let Some((_, oldest)) = lines.newest_last.pop_front() else {
                break;
            };
            lines.bytes -= oldest.len();
        }
        line
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lines.lock().unwrap().newest_last.len()
    }
}

impl Lines {
    fn find(&self, key: &EventKey) -> Option<Bytes> {
        let known = self.newest_last.iter().rev().find(|(known, _)| known == key);
        known.map(|(_, line)| line.clone())
    }
}
