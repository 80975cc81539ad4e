//! Memory for bodies, and places for those that are not complete yet: shared by all requests, with a part for each user.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::access::flow_control::{Flow, UserKey};
use crate::failure::Failure;
use crate::portions::{Bounds, Portions};

/// KiB of bodies held at a time. Decoded they take some times as much, so this bounds what writes cost in memory. A user
/// may hold one of the largest, and some of usual size besides; a fourth is left to nodes and the cluster's own parts.
const KIB: Bounds = Bounds {
    total: 32 << 10,
    without_reserve: 24 << 10,
    per_holder: 4 << 10,
    per_reserved_holder: 8 << 10,
};
/// Bodies that are not complete yet. Each is a stream with little in it, and ends soon if its client is slow.
const OPEN: Bounds = Bounds {
    total: 4096,
    without_reserve: 3072,
    per_holder: 64,
    per_reserved_holder: 256,
};
/// Longest wait of a request for memory. It exceeds the time for which stalled bodies hold memory.
const ROOM_TIMEOUT: Duration = Duration::from_secs(15);

/// The room that bodies may take.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    kib: Mutex<Portions<UserKey>>,
    open: Mutex<Portions<UserKey>>,
    freed: Notify,
}

/// Room of one body, as long as this is held.
#[derive(Debug)]
pub(super) struct Room {
    rooms: Arc<BodyRoom>,
    flow: Flow,
    kib: u32,
}

/// A place among the bodies that are not complete yet, as long as this is held.
#[derive(Debug)]
pub(super) struct Opened {
    rooms: Arc<BodyRoom>,
    flow: Flow,
}

impl BodyRoom {
    pub(crate) fn new() -> BodyRoom {
        BodyRoom {
            kib: Mutex::new(Portions::new(KIB)),
            open: Mutex::new(Portions::new(OPEN)),
            freed: Notify::new(),
        }
    }

    /// Takes a place among the bodies that are not complete yet.
    pub(super) fn open(self: &Arc<Self>, flow: Flow) -> Result<Opened, Failure> {
        let taken = lock(&self.open).take(flow.user, 1, flow.claim());
        taken.map_err(|_| Failure::too_many_requests())?;
        Ok(Opened {
            rooms: self.clone(),
            flow,
        })
    }

    /// Takes room for these bytes, and waits for it if there is none.
    pub(super) async fn room(self: &Arc<Self>, flow: Flow, bytes: usize) -> Result<Room, Failure> {
        let mut room = Room {
            rooms: self.clone(),
            flow,
            kib: 0,
        };
        room.grow(bytes).await?;
        Ok(room)
    }

    fn try_take(&self, flow: Flow, kib: u32) -> bool {
        lock(&self.kib).take(flow.user, kib, flow.claim()).is_ok()
    }

    async fn take(&self, flow: Flow, kib: u32) -> Result<(), Failure> {
        if self.try_take(flow, kib) {
            return Ok(());
        }
        let taking = async {
            loop {
                let mut freed = pin!(self.freed.notified());
                // From here on no notice is missed.
                freed.as_mut().enable();
                if self.try_take(flow, kib) {
                    return;
                }
                freed.await;
            }
        };
        timeout(ROOM_TIMEOUT, taking)
            .await
            .map_err(|_| Failure::too_many_requests())
    }
}

impl Room {
    /// Takes as much more as is missing for this many bytes.
    pub(super) async fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let missing = kib.saturating_sub(self.kib);
        if missing > 0 {
            self.rooms.take(self.flow, missing).await?;
            self.kib = kib;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        lock(&self.rooms.kib).give_back(&self.flow.user, self.kib);
        self.rooms.freed.notify_waiters();
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&self.rooms.open).give_back(&self.flow.user, 1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
