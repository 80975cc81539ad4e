//! Events in the forms that are not the store's own, written once for all watches that want them so.
//!
//! Watches of one kind go through the same events at about the same time, so the last few are enough.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use store::{Key, Revision};

use crate::request::negotiation::Form;
use crate::verbs::printing::IncludeObject;

/// Lines that are kept: a transaction has a handful of events, and watches are some transactions apart.
const LINES_MAX: usize = 64;
/// Bytes that are kept: some of the largest objects, or all lines of usual ones.
const LINES_BYTES_MAX: usize = 8 << 20;

/// Which line it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) revision: Revision,
    pub(super) key: Key,
    /// The group that the watch is of: Events are of two.
    pub(super) group: &'static str,
    pub(super) change: &'static str,
    pub(super) form: Form,
    pub(super) include: IncludeObject,
}

/// The last lines.
#[derive(Default)]
pub(crate) struct RenderedEvents {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    newest_last: VecDeque<(Place, Bytes)>,
    bytes: usize,
}

impl RenderedEvents {
    /// The line of a place, which `write` writes if nobody has yet.
    pub(super) fn get_or_write(&self, place: Place, write: impl FnOnce() -> Bytes) -> Bytes {
        // Held while the line is written: that is what spares the others the work.
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lines.newest_last.iter().rev().find(|(known, _)| *known == place);
        if let Some((_, line)) = known {
            return line.clone();
        }
        let line = write();
        lines.bytes += line.len();
        lines.newest_last.push_back((place, line.clone()));
        while lines.newest_last.len() > LINES_MAX || lines.bytes > LINES_BYTES_MAX {
            let Some((_, oldest)) = lines.newest_last.pop_front() else {
                break;
            };
            lines.bytes -= oldest.len();
        }
        line
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lines.lock().unwrap().newest_last.len()
    }
}
