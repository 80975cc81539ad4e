//! Event logs that watches read from. Each first segment of keys has a log, and a further log contains all events. A
//! watch therefore reads only the changes of its segment. A slow watch has no buffer of its own. It ends with an
//! error when the log removes events that it has not read.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use crate::unpoisoned::{read, write};
use crate::{Event, Revision};

/// Writing end. Dropping it closes the watches.
pub(super) struct Log {
    tail: Arc<RwLock<LogTail>>,
    changed: watch::Sender<()>,
    /// True if there are events that watches have not been notified of.
    has_unnotified: bool,
}

/// Events of the log, ascending by revision and numbered from the beginning of the log.
#[derive(Default)]
pub(super) struct LogTail {
    first: u64,
    events: VecDeque<Arc<Event>>,
}

/// Reading end.
pub(super) struct LogReader {
    pub(super) tail: Arc<RwLock<LogTail>>,
    pub(super) changed: watch::Receiver<()>,
    /// Number of the next event.
    pub(super) next: u64,
}

impl Log {
    pub(super) fn new() -> Log {
        Log {
            tail: Arc::default(),
            changed: watch::Sender::new(()),
            has_unnotified: false,
        }
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.has_unnotified = true;
        write(&self.tail).events.push_back(event);
    }

    /// Returns the sender that wakes the watches, if there are new events since the last call.
    pub(super) fn take_changed(&mut self) -> Option<watch::Sender<()>> {
        std::mem::take(&mut self.has_unnotified).then(|| self.changed.clone())
    }

    pub(super) fn len(&self) -> usize {
        read(&self.tail).events.len()
    }

    pub(super) fn oldest_revision(&self) -> Option<Revision> {
        read(&self.tail).events.front().map(|event| event.revision)
    }

    pub(super) fn remove_oldest(&self) -> Option<Arc<Event>> {
        let mut tail = write(&self.tail);
        let event = tail.events.pop_front()?;
        tail.first += 1;
        Some(event)
    }

    /// Returns a reader of the events after a revision, which must still be in the log.
    pub(super) fn read_after(&self, revision: Revision) -> LogReader {
        let tail = read(&self.tail);
        let seen = tail.events.partition_point(|event| event.revision <= revision);
        LogReader {
            next: tail.first + seen as u64,
            changed: self.changed.subscribe(),
            tail: self.tail.clone(),
        }
    }
}

impl LogTail {
    /// Returns the event with a number; `Ok(None)` if it does not exist yet, `Err` with the number of removed events if
    /// it was removed.
    pub(super) fn get(&self, number: u64) -> Result<Option<&Arc<Event>>, usize> {
        match number.checked_sub(self.first) {
            None => Err(usize::try_from(self.first - number).unwrap_or(usize::MAX)),
            Some(offset) => Ok(usize::try_from(offset)
                .ok()
                .and_then(|offset| self.events.get(offset))),
        }
    }
}
