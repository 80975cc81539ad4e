//! The event log that watches read from. There is one for each first segment of keys and one for
//! everything: a watch pays for the changes of its segment only, and a slow watch holds no memory of its
//! own: it is cut when the log forgets what it has not read.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use tokio::sync::watch;

use crate::lock::{read, write};
use crate::{Event, Revision};

/// The writing end; dropping it tells the watches that the store is closed.
pub(super) struct Log {
    tail: Arc<RwLock<Tail>>,
    changed: watch::Sender<()>,
    /// Whether the watches have something to be woken for.
    dirty: bool,
}

/// The events not forgotten yet, ascending by revision, numbered from the log's beginning.
#[derive(Default)]
pub(super) struct Tail {
    first: u64,
    events: VecDeque<Arc<Event>>,
}

/// The reading end.
pub(super) struct Reader {
    pub(super) tail: Arc<RwLock<Tail>>,
    pub(super) changed: watch::Receiver<()>,
    /// Number of the next event to read.
    pub(super) next: u64,
}

impl Log {
    pub(super) fn new() -> Log {
        Log {
            tail: Arc::default(),
            changed: watch::Sender::new(()),
            dirty: false,
        }
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.dirty = true;
        write(&self.tail).events.push_back(event);
    }

    /// The means to wake the watches, if there is something new for them since the last call.
    pub(super) fn take_changed(&mut self) -> Option<watch::Sender<()>> {
        std::mem::take(&mut self.dirty).then(|| self.changed.clone())
    }

    pub(super) fn len(&self) -> usize {
        read(&self.tail).events.len()
    }

    pub(super) fn oldest_revision(&self) -> Option<Revision> {
        read(&self.tail).events.front().map(|event| event.revision)
    }

    pub(super) fn forget_oldest(&self) -> Option<Arc<Event>> {
        let mut tail = write(&self.tail);
        let event = tail.events.pop_front()?;
        tail.first += 1;
        Some(event)
    }

    /// A reader of the events after a revision, which must not have been forgotten.
    pub(super) fn read_after(&self, revision: Revision) -> Reader {
        let tail = read(&self.tail);
        let seen = tail.events.partition_point(|event| event.revision <= revision);
        Reader {
            next: tail.first + seen as u64,
            changed: self.changed.subscribe(),
            tail: self.tail.clone(),
        }
    }
}

impl Tail {
    /// The event of a number: `Err` says how many were forgotten since, `None` that it is yet to come.
    pub(super) fn get(&self, number: u64) -> Result<Option<&Arc<Event>>, usize> {
        match number.checked_sub(self.first) {
            None => Err(usize::try_from(self.first - number).unwrap_or(usize::MAX)),
            Some(offset) => Ok(usize::try_from(offset)
                .ok()
                .and_then(|offset| self.events.get(offset))),
        }
    }
}
