//! How many connections there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

/// Open connections. Each costs a descriptor and some kilobytes; at the limit, idle ones are closed.
const CONNECTIONS_MAX: usize = 12_000;
/// Open connections of one client: its queries can share one, so more are a mistake or an attack.
const CONNECTIONS_OF_CLIENT_MAX: u32 = 128;
/// Open connections of all clients together that are not answered: they get a refusal, and must not take the places
/// of those that are.
const CONNECTIONS_OF_STRANGERS_MAX: usize = 256;
/// Zone transfers under way: each holds the whole zone in memory.
const TRANSFERS_MAX: usize = 1;
/// How long a connection may be idle when others wait for its place.
pub(super) const IDLE_UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// The places for connections.
#[derive(Debug)]
pub(super) struct Connections {
    open_max: usize,
    by_client: Mutex<ByClient>,
    /// Told when there is no place: who is idle goes.
    pub(super) pressure: Notify,
    pub(super) transfers: Semaphore,
}

#[derive(Debug, Default)]
struct ByClient {
    open: usize,
    of_strangers: usize,
    clients: HashMap<IpAddr, u32>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    client: IpAddr,
    is_allowed: bool,
}

impl Connections {
    /// Places as the descriptors of this process allow: a quarter is kept for everything else.
    pub(super) fn new() -> Arc<Self> {
        let descriptors = descriptors_max();
        Arc::new(Self {
            open_max: CONNECTIONS_MAX.min(descriptors / 4 * 3),
            by_client: Mutex::default(),
            pressure: Notify::new(),
            transfers: Semaphore::new(TRANSFERS_MAX),
        })
    }

    /// A place for a connection of `client`, which is answered if `is_allowed`, as long as there is one.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr, is_allowed: bool) -> Option<Place> {
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_allowed && by_client.of_strangers >= CONNECTIONS_OF_STRANGERS_MAX {
            return None;
        }
        if by_client.open >= self.open_max {
            self.pressure.notify_waiters();
            return None;
        }
        let count = by_client.clients.entry(client).or_insert(0);
        if *count >= CONNECTIONS_OF_CLIENT_MAX && !client.is_loopback() {
            return None;
        }
        *count += 1;
        by_client.open += 1;
        by_client.of_strangers += usize::from(!is_allowed);
        Some(Place {
            connections: self.clone(),
            client,
            is_allowed,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_client = self
            .connections
            .by_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        by_client.open -= 1;
        by_client.of_strangers -= usize::from(!self.is_allowed);
        if let Some(count) = by_client.clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                by_client.clients.remove(&self.client);
            }
        }
    }
}

/// How many files this process may open; few if the kernel does not say.
fn descriptors_max() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 1_024,
        rlim_max: 0,
    };
    // SAFETY: the call writes to the structure that the pointer is of.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "the limit of open files is not known");
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
