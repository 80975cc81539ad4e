//! Memory of responses that their clients have not received, with a limit for each user.
//!
//! A client may read no response: over HTTP/2 it grants no window, answers pings, and the connection stays open. The
//! server would hold the bytes of each response and the state of its compression. A request therefore takes a permit when
//! it begins, and the permit is released when the client has received the response. Bytes that a response shares with the
//! store do not count.
//!
//! Long-running responses are bounded by their number. A watch holds a permit until it has sent the objects that exist.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::access::flow_control::UserKey;
use crate::failure::Failure;
use crate::limited_pool::{Bounds, LimitedPool, ReserveAccess};

#[cfg(test)]
mod tests;

/// KiB of responses of users and Pods. A user may hold one of the largest lists, or thousands of objects.
const COMMON_KIB: Bounds = bounds(256 << 10, 64 << 10);
/// KiB of responses of nodes and components of the cluster, which list whole collections after a restart of the server. A
/// pool of their own: their lists must not delay users.
const RESERVED_KIB: Bounds = bounds(1 << 20, 256 << 10);
/// KiB of any request: its head, the state of its stream, and a response of usual size.
const REQUEST_KIB: u32 = 4;
/// Bytes of a compressed response besides those that are not compressed yet: the state of the encoder, and its output.
const COMPRESSION_BYTES: usize = 512 << 10;

/// Returns the bounds of a pool whose holders are equal.
const fn bounds(total: u32, per_holder: u32) -> Bounds {
    Bounds {
        total,
        without_reserve: total,
        per_holder,
        per_reserved_holder: per_holder,
    }
}

/// Memory of all responses, except those of administrators.
pub(crate) struct ResponseMemory {
    common: Mutex<LimitedPool<UserKey>>,
    reserved: Mutex<LimitedPool<UserKey>>,
}

/// Memory of one response, released when the value is dropped.
pub(crate) struct ResponsePermit {
    memory: Arc<ResponseMemory>,
    user: UserKey,
    access: ReserveAccess,
    kib: u32,
}

impl ResponseMemory {
    pub(crate) fn new() -> ResponseMemory {
        ResponseMemory {
            common: Mutex::new(LimitedPool::new(COMMON_KIB)),
            reserved: Mutex::new(LimitedPool::new(RESERVED_KIB)),
        }
    }

    /// Takes the permit of a request, before its response is known.
    ///
    /// # Errors
    /// 429 if the client leaves too many responses unread, or all clients together do.
    pub(crate) fn begin(
        self: &Arc<Self>,
        user: UserKey,
        access: ReserveAccess,
    ) -> Result<ResponsePermit, Failure> {
        let mut permit = ResponsePermit {
            memory: Arc::clone(self),
            user,
            access,
            kib: 0,
        };
        permit.grow(REQUEST_KIB)?;
        Ok(permit)
    }

    /// Returns the pool of users with this access, and the largest size of a permit; `None` for no limit.
    fn pool(&self, access: ReserveAccess) -> Option<(MutexGuard<'_, LimitedPool<UserKey>>, u32)> {
        let (pool, bounds) = match access {
            ReserveAccess::Common => (&self.common, COMMON_KIB),
            ReserveAccess::Reserved => (&self.reserved, RESERVED_KIB),
            ReserveAccess::Exempt => return None,
        };
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        Some((pool, bounds.per_holder / 2))
    }
}

impl ResponsePermit {
    /// Reserves the memory of the response. The largest response counts as half of what its user may hold, so it passes
    /// beside small ones.
    ///
    /// # Errors
    /// 429 if the client leaves too many responses unread, or all clients together do.
    pub(crate) fn reserve(&mut self, bytes: usize, is_compressed: bool) -> Result<(), Failure> {
        let bytes = bytes.saturating_add(if is_compressed { COMPRESSION_BYTES } else { 0 });
        self.grow(u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX))
    }

    /// Returns true if the user has no limit.
    pub(crate) fn is_exempt(&self) -> bool {
        self.access == ReserveAccess::Exempt
    }

    /// Grows the permit to this size, or to the largest one.
    fn grow(&mut self, kib: u32) -> Result<(), Failure> {
        let Some((mut pool, kib_max)) = self.memory.pool(self.access) else {
            return Ok(());
        };
        let missing = kib.min(kib_max).saturating_sub(self.kib);
        pool.take(self.user, missing, self.access)
            .map_err(|_| Failure::too_many_requests())?;
        self.kib += missing;
        Ok(())
    }
}

impl Drop for ResponsePermit {
    fn drop(&mut self) {
        if let Some((mut pool, _)) = self.memory.pool(self.access) {
            pool.release(&self.user, self.kib);
        }
    }
}
