//! Memory of request bodies, and the number of incomplete ones: shared by all requests, with a limit for each user.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::access::flow_control::{Flow, UserKey};
use crate::failure::Failure;
use crate::limited_pool::{Bounds, LimitedPool};

/// Limits of the memory of bodies in KiB. A decoded body takes several times its size, so the limits also bound the
/// memory of writes. A user may hold one body of the largest size and some of usual size. A quarter of the total is
/// reserved for nodes and components of the cluster.
const BODY_KIBIBYTES: Bounds = Bounds {
    total: 32 << 10,
    without_reserve: 24 << 10,
    per_holder: 4 << 10,
    per_reserved_holder: 8 << 10,
};
/// Limit of incomplete bodies. The minimum rate bounds the duration of a body of a slow client.
const OPEN_BODIES: Bounds = Bounds {
    total: 4096,
    without_reserve: 3072,
    per_holder: 64,
    per_reserved_holder: 256,
};
/// Time for which a request waits for memory. It exceeds the time for which stalled bodies hold memory.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(15);

/// Memory of all request bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    kib: Mutex<LimitedPool<UserKey>>,
    open: Mutex<LimitedPool<UserKey>>,
    freed: Notify,
}

/// Memory of one body, released when the value is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    memory: Arc<BodyMemory>,
    flow: Flow,
    kib: u32,
}

/// Count of one incomplete body, released when the value is dropped.
#[derive(Debug)]
pub(super) struct OpenBody {
    memory: Arc<BodyMemory>,
    flow: Flow,
}

impl BodyMemory {
    pub(crate) fn new() -> BodyMemory {
        BodyMemory {
            kib: Mutex::new(LimitedPool::new(BODY_KIBIBYTES)),
            open: Mutex::new(LimitedPool::new(OPEN_BODIES)),
            freed: Notify::new(),
        }
    }

    /// Counts an incomplete body.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(super) fn open(self: &Arc<Self>, flow: Flow) -> Result<OpenBody, Failure> {
        let taken = lock(&self.open).take(flow.user, 1, flow.reserve_access());
        taken.map_err(|_| Failure::too_many_requests())?;
        Ok(OpenBody {
            memory: self.clone(),
            flow,
        })
    }

    /// Reserves memory, and waits for it if none is free.
    ///
    /// # Errors
    /// 429 after [`RESERVE_TIMEOUT`].
    pub(super) async fn reserve(self: &Arc<Self>, flow: Flow, bytes: usize) -> Result<Reservation, Failure> {
        let mut reservation = Reservation {
            memory: self.clone(),
            flow,
            kib: 0,
        };
        reservation.grow(bytes).await?;
        Ok(reservation)
    }

    fn try_take(&self, flow: Flow, kib: u32) -> bool {
        lock(&self.kib)
            .take(flow.user, kib, flow.reserve_access())
            .is_ok()
    }

    async fn take(&self, flow: Flow, kib: u32) -> Result<(), Failure> {
        if self.try_take(flow, kib) {
            return Ok(());
        }
        let taking = async {
            loop {
                let mut freed = pin!(self.freed.notified());
                // Enabled before the attempt, so that no release is missed.
                freed.as_mut().enable();
                if self.try_take(flow, kib) {
                    return;
                }
                freed.await;
            }
        };
        timeout(RESERVE_TIMEOUT, taking)
            .await
            .map_err(|_| Failure::too_many_requests())
    }
}

impl Reservation {
    /// Grows the reservation to this many bytes.
    ///
    /// # Errors
    /// 429 if no memory becomes free in time.
    pub(super) async fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let missing = kib.saturating_sub(self.kib);
        if missing > 0 {
            self.memory.take(self.flow, missing).await?;
            self.kib = kib;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.memory.kib).release(&self.flow.user, self.kib);
        self.memory.freed.notify_waiters();
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        lock(&self.memory.open).release(&self.flow.user, 1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
