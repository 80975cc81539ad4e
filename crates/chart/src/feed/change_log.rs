//! Recent changes. Each is encoded once, and all readers share its bytes. A reader has no queue of its own: one that
//! falls behind takes a new snapshot.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::view::rows::Change;

/// Maximum number of changes of the log: one minute with 4 each second.
pub const CHANGES_MAX: usize = 240;
/// Maximum memory of the log in bytes: some changes of 500 Services each, which follow each other while caches are filled.
pub const BYTES_MAX: usize = 8 << 20;

/// Part of the stream that a reader gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPart {
    /// Nothing has changed.
    Nothing,
    /// The next event of the stream, and the revision after it.
    Change(Bytes, u64),
    /// The log does not reach back to the reader's revision. The reader continues after the given one with a new snapshot.
    Reload(u64),
}

/// Recent changes.
#[derive(Debug)]
pub struct ChangeLog {
    /// Revision before the first change.
    start: u64,
    /// Revision with its event.
    changes: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl ChangeLog {
    /// Returns a log that begins after a revision.
    pub fn new(start: u64) -> Self {
        Self {
            start,
            changes: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Appends a change.
    ///
    /// # Errors
    ///
    /// The error of the encoder.
    pub fn push(&mut self, change: &Change) -> Result<(), serde_json::Error> {
        let data = serde_json::to_string(change)?;
        let event = Bytes::from(format!(
            "id: {}\nevent: change\ndata: {data}\n\n",
            change.revision
        ));
        self.bytes += event.len();
        self.changes.push_back((change.revision, event));
        while self.changes.len() > CHANGES_MAX || self.bytes > BYTES_MAX {
            let Some((revision, dropped)) = self.changes.pop_front() else {
                break;
            };
            self.bytes -= dropped.len();
            self.start = revision;
        }
        Ok(())
    }

    /// Returns the first change after a revision.
    pub fn after(&self, revision: u64) -> NextPart {
        let latest = self.latest();
        if revision == latest {
            return NextPart::Nothing;
        }
        if revision < self.start || revision > latest {
            return NextPart::Reload(latest);
        }
        let next = self.changes.iter().find(|(at, _)| *at > revision);
        next.map_or(NextPart::Nothing, |(at, event)| {
            NextPart::Change(event.clone(), *at)
        })
    }

    fn latest(&self) -> u64 {
        self.changes.back().map_or(self.start, |(revision, _)| *revision)
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns true if there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the memory of the changes in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
