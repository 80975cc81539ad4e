//! Memory of the lines that wait for their file. The logs of a namespace share it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// Maximum number of bytes of the waiting lines of a namespace. A line counts from its queue until its file is written.
const BYTES_MAX: usize = 64 << 20;
/// Bytes from which on writers write at once, without the interval of their log.
const SCARCE_BYTES_MIN: usize = BYTES_MAX / 2;

/// Memory of the lines of a namespace.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: AtomicUsize,
    became_scarce: Notify,
}

/// Lines that leave the memory when this value is dropped.
pub(super) struct Taken<'a> {
    memory: &'a Memory,
    bytes: usize,
}

impl Memory {
    /// Adds a line. Returns false if there is no memory for it.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let with = |held: usize| held.checked_add(bytes).filter(|held| *held <= BYTES_MAX);
        let Ok(former) = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with)
        else {
            return false;
        };
        if former < SCARCE_BYTES_MIN && former.saturating_add(bytes) >= SCARCE_BYTES_MIN {
            self.became_scarce.notify_waiters();
        }
        true
    }

    /// Removes lines that were added.
    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Removes lines that were added when the returned value is dropped.
    pub(super) fn remove_on_drop(&self, bytes: usize) -> Taken<'_> {
        Taken { memory: self, bytes }
    }

    /// Returns true if lines are to be written early.
    pub(super) fn is_scarce(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= SCARCE_BYTES_MIN
    }

    /// Completes when the memory is scarce.
    pub(super) async fn scarcity(&self) {
        // The notification is registered before the check, so that no change after the check is lost.
        let became_scarce = self.became_scarce.notified();
        if !self.is_scarce() {
            became_scarce.await;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.memory.remove(self.bytes);
    }
}
