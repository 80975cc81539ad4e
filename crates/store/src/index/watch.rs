//! Watches: the events of a prefix after a revision, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::log::Reader;
use crate::lock::read;
use crate::{Event, Key, Revision, StoreError};

/// Events looked at in one go; keeps the time a watch holds its log's lock to some microseconds.
const SCAN_EVENTS_MAX: u64 = 512;

/// A subscription to the changes of keys with a prefix. Made by [`crate::Index::watch`].
pub struct Watch {
    prefix: Key,
    reader: Reader,
    published: Arc<AtomicU64>,
}

/// What one look into the log brought.
enum Scan {
    Found(Arc<Event>),
    /// Nothing yet; there are more events to look at.
    More,
    /// Everything has been looked at.
    Exhausted,
}

impl Watch {
    pub(super) fn new(prefix: &str, reader: Reader, published: Arc<AtomicU64>) -> Watch {
        Watch {
            prefix: prefix.into(),
            reader,
            published,
        }
    }

    /// Waits until there is an event that this watch has not looked at, whether it concerns its keys or not.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`Watch::next`].
    pub async fn ready(&mut self) -> Result<(), StoreError> {
        while !self.has_more() {
            self.changed().await?;
        }
        Ok(())
    }

    /// Whether there are events that this watch has not looked at, or ones that it never will: then reading
    /// tells the error.
    pub fn has_more(&self) -> bool {
        !matches!(read(&self.reader.tail).get(self.reader.next), Ok(None))
    }

    /// Where this watch is in the log of its keys' first segment. Watches on keys of one segment that are at one
    /// position read the same events from there.
    pub fn position(&self) -> u64 {
        self.reader.next
    }

    /// Goes on at a later position, to which somebody else has read for this watch.
    pub fn skip_to(&mut self, position: u64) {
        self.reader.next = self.reader.next.max(position);
    }

    /// Waits for the next event. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`StoreError::Lagged`] when the history that this watch has not read yet was forgotten; it stays so.
    /// [`StoreError::Unavailable`] when the store was closed.
    pub async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            match self.scan()? {
                Scan::Found(event) => return Ok(event),
                Scan::More => {}
                Scan::Exhausted => self.changed().await?,
            }
        }
    }

    /// The next event if there is one already; the same errors as [`Watch::next`].
    ///
    /// # Errors
    /// See [`Watch::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        loop {
            match self.scan()? {
                Scan::Found(event) => return Ok(Some(event)),
                Scan::More => {}
                Scan::Exhausted => return Ok(None),
            }
        }
    }

    /// Everything up to this revision was delivered: what a bookmark may say. It is smaller than the last
    /// event's revision as long as other events of the same transaction may follow, and 0 once the watch was
    /// cut.
    pub fn progress(&self) -> Revision {
        // Read before the log: events are in the log before their revision is published.
        let published = Revision(self.published.load(Ordering::Acquire));
        match read(&self.reader.tail).get(self.reader.next) {
            Ok(None) => published,
            Ok(Some(waiting)) => Revision(waiting.revision.0.saturating_sub(1)).min(published),
            Err(_) => Revision::default(),
        }
    }

    /// Waits for the log to grow.
    async fn changed(&mut self) -> Result<(), StoreError> {
        let closed = |_| StoreError::Unavailable {
            reason: "it was closed".to_owned(),
        };
        self.reader.changed.changed().await.map_err(closed)
    }

    fn scan(&mut self) -> Result<Scan, StoreError> {
        let tail = read(&self.reader.tail);
        for _ in 0..SCAN_EVENTS_MAX {
            match tail.get(self.reader.next) {
                Err(lag) => return Err(StoreError::Lagged { lag }),
                Ok(None) => return Ok(Scan::Exhausted),
                Ok(Some(event)) => {
                    self.reader.next += 1;
                    if event.key.starts_with(&*self.prefix) {
                        return Ok(Scan::Found(event.clone()));
                    }
                }
            }
        }
        Ok(Scan::More)
    }
}
