//! Responses that TCP clients have not received yet. Their bytes have a limit, and each client has a share of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// Limit of the bytes of all responses that wait: a thousand of the longest ones.
const BYTES_MAX: usize = 64 << 20;
/// A client may have a third of the bytes that are free. One client then has a quarter of all, because it can be the cache
/// of a whole node, and many clients leave bytes to others.
const FREE_DIVISOR: usize = 3;

/// Number of bytes that wait.
#[derive(Debug)]
pub(super) struct WaitingResponses {
    bytes_max: usize,
    counts: Mutex<Counts>,
}

/// Number of bytes of all clients, and of each client with any.
#[derive(Debug, Default)]
struct Counts {
    total: usize,
    clients: HashMap<IpAddr, usize>,
}

/// A response within the limits, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingResponse {
    /// The message.
    pub(super) message: Vec<u8>,
    waiting: Arc<WaitingResponses>,
    client: IpAddr,
    counted_bytes: usize,
}

impl WaitingResponses {
    /// Creates the counts.
    pub(super) fn new() -> Arc<Self> {
        Self::with_limit(BYTES_MAX)
    }

    /// Creates the counts with another limit.
    pub(super) fn with_limit(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            counts: Mutex::default(),
        })
    }

    /// Counts a response to `client`, as [`Policy::counted_client`](super::Policy) counts it. Returns `None` if a limit is
    /// reached. Loopback addresses have no share.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr, message: Vec<u8>) -> Option<WaitingResponse> {
        let counted_bytes = message.len();
        let mut counts = self.counts();
        let of_client = counts.clients.get(&client).copied().unwrap_or_default() + counted_bytes;
        let free = self.bytes_max - counts.total;
        let is_beyond_share = of_client > free / FREE_DIVISOR && !client.is_loopback();
        if counted_bytes > free || is_beyond_share {
            return None;
        }
        counts.total += counted_bytes;
        counts.clients.insert(client, of_client);
        Some(WaitingResponse {
            message,
            waiting: Arc::clone(self),
            client,
            counted_bytes,
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingResponse {
    fn drop(&mut self) {
        let mut counts = self.waiting.counts();
        counts.total -= self.counted_bytes;
        if let Some(of_client) = counts.clients.get_mut(&self.client) {
            *of_client -= self.counted_bytes;
            if *of_client == 0 {
                counts.clients.remove(&self.client);
            }
        }
    }
}
