//! Watches: the events of a prefix after a revision, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::log::LogReader;
use crate::unpoisoned::read;
use crate::{Event, Key, Revision, StoreError};

/// Events scanned under one lock, which bounds the lock to some microseconds.
const SCAN_EVENTS_MAX: u64 = 512;

/// A subscription to the changes of keys with a prefix; see [`crate::Index::watch`].
pub struct Watch {
    prefix: Key,
    reader: LogReader,
    published: Arc<AtomicU64>,
}

/// Result of one scan of the log.
enum Scan {
    Match(Arc<Event>),
    /// No match yet; there are more events.
    More,
    /// All events are scanned.
    End,
}

impl Watch {
    pub(super) fn new(prefix: &str, reader: LogReader, published: Arc<AtomicU64>) -> Watch {
        Watch {
            prefix: prefix.into(),
            reader,
            published,
        }
    }

    /// Waits for an event that this watch has not scanned, even if the event does not match. Dropping the future loses
    /// no event.
    ///
    /// # Errors
    ///
    /// See [`Watch::next`].
    pub async fn ready(&mut self) -> Result<(), StoreError> {
        while !self.has_more() {
            self.changed().await?;
        }
        Ok(())
    }

    /// Returns true if there are events that this watch has not scanned. Events that the log has removed count, too;
    /// a read of them returns an error.
    pub fn has_more(&self) -> bool {
        !matches!(read(&self.reader.tail).get(self.reader.next), Ok(None))
    }

    /// Returns the position in the log of the first segment. Watches on one segment at the same position read the
    /// same events from there.
    pub fn position(&self) -> u64 {
        self.reader.next
    }

    /// Continues at a later position, up to which another watch has read for this one.
    pub fn skip_to(&mut self, position: u64) {
        self.reader.next = self.reader.next.max(position);
    }

    /// Waits for the next event. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Lagged`] if the log removed events that this watch has not read; all later calls return
    /// it, too. Returns [`StoreError::Unavailable`] if the store was closed.
    pub async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            match self.scan()? {
                Scan::Match(event) => return Ok(event),
                Scan::More => {}
                Scan::End => self.changed().await?,
            }
        }
    }

    /// Returns the next event, if there is one.
    ///
    /// # Errors
    ///
    /// See [`Watch::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        loop {
            match self.scan()? {
                Scan::Match(event) => return Ok(Some(event)),
                Scan::More => {}
                Scan::End => return Ok(None),
            }
        }
    }

    /// Returns the revision up to which all events were delivered, for bookmarks. While other events of the same
    /// transaction can follow, it is smaller than the revision of the last event. After [`StoreError::Lagged`], it is
    /// 0.
    pub fn progress(&self) -> Revision {
        // The revision is read before the log, because events are in the log before their revision is published.
        let published = Revision(self.published.load(Ordering::Acquire));
        match read(&self.reader.tail).get(self.reader.next) {
            Ok(None) => published,
            Ok(Some(waiting)) => Revision(waiting.revision.0.saturating_sub(1)).min(published),
            Err(_) => Revision::default(),
        }
    }

    /// Waits for new events in the log.
    async fn changed(&mut self) -> Result<(), StoreError> {
        let closed = |_| StoreError::Unavailable {
            reason: "the store was closed".to_owned(),
        };
        self.reader.changed.changed().await.map_err(closed)
    }

    fn scan(&mut self) -> Result<Scan, StoreError> {
        let tail = read(&self.reader.tail);
        for _ in 0..SCAN_EVENTS_MAX {
            match tail.get(self.reader.next) {
                Err(lag) => return Err(StoreError::Lagged { lag }),
                Ok(None) => return Ok(Scan::End),
                Ok(Some(event)) => {
                    self.reader.next += 1;
                    if event.key.starts_with(&*self.prefix) {
                        return Ok(Scan::Match(event.clone()));
                    }
                }
            }
        }
        Ok(Scan::More)
    }
}
