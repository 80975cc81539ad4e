//! Permits for open connections and UDP flows. Each Service, namespace and client has a share of them, so that one of them
//! leaves permits to the others. A client is an IPv4 address, an IPv6 /64, or the address of a Pod. A Service holds at most
//! as many as are free, as with the edge: one gets half of them, two get a third each. The Services of a namespace hold
//! twice as many together.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::object::ObjectKey;
use counting::client_network;
use ipnet::IpNet;

use crate::counts::PermitRefusals;

#[cfg(test)]
mod tests;

/// Part of all permits that one client can hold: a quarter.
const CLIENT_SHARE_DIVISOR: usize = 4;
/// Permits that one Service, namespace or client can hold at least, if there are as many.
const SHARE_MIN: usize = 1_024;

/// Limit that refuses a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// All permits are held.
    #[error("maximum number of open connections reached")]
    Process,
    /// The Service, or its namespace, holds its share.
    #[error("maximum number of open connections of the Service or its namespace reached")]
    Service,
    /// The client holds its share.
    #[error("maximum number of open connections of the client reached")]
    Client,
}

/// Permits of the process.
#[derive(Debug)]
pub(super) struct ConnectionPermits {
    permits_max: usize,
    /// Permits that a Service or namespace can hold, even if fewer are free.
    service_share_min: usize,
    client_share_max: usize,
    held: Mutex<PermitCounts>,
}

/// Permits that are held. Each count is at least 1.
#[derive(Debug, Default)]
struct PermitCounts {
    all: usize,
    services: HashMap<ObjectKey, usize>,
    namespaces: HashMap<Arc<str>, usize>,
    /// By the address by which the client counts.
    clients: HashMap<IpAddr, usize>,
    /// Ranges of Pods.
    pods: Vec<IpNet>,
    refusals: PermitRefusals,
}

impl PermitCounts {
    fn count(&mut self, refusal: Refusal) -> Refusal {
        let count = match refusal {
            Refusal::Process => &mut self.refusals.process,
            Refusal::Service => &mut self.refusals.service,
            Refusal::Client => &mut self.refusals.client,
        };
        *count += 1;
        refusal
    }

    /// Returns the address by which a client counts. Pods count by their own address, because the Pods of a node can
    /// share a /64.
    fn counted_client(&self, client: IpAddr) -> IpAddr {
        let client = client.to_canonical();
        if self.pods.iter().any(|range| range.contains(&client)) {
            client
        } else {
            client_network(client)
        }
    }
}

/// Permit of a Service for one connection or flow; dropping it releases it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    permits: Arc<ConnectionPermits>,
    service: ObjectKey,
    /// Client whose share contains the permit; `None` until the client is known.
    client: Option<IpAddr>,
}

impl ConnectionPermits {
    /// Creates the permits of a process.
    pub(super) fn new(permits_max: usize) -> Arc<Self> {
        let client_share_max = (permits_max / CLIENT_SHARE_DIVISOR).max(SHARE_MIN);
        Self::with_shares(permits_max, SHARE_MIN, client_share_max)
    }

    /// Creates permits with other shares: a Service or namespace can hold `service_share_min` even if fewer are free, and a
    /// client `client_share_max`.
    pub(super) fn with_shares(
        permits_max: usize,
        service_share_min: usize,
        client_share_max: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits_max,
            service_share_min,
            client_share_max,
            held: Mutex::default(),
        })
    }

    /// Sets the ranges of Pods. Permits that are held keep the address by which their client counts.
    pub(super) fn set_pods(&self, ranges: &[IpNet]) {
        let mut held = self.lock();
        if held.pods != ranges {
            held.pods = ranges.to_vec();
        }
    }

    /// Returns a permit of a Service.
    ///
    /// # Errors
    ///
    /// [`Refusal::Process`] or [`Refusal::Service`].
    pub(super) fn acquire(self: &Arc<Self>, service: &ObjectKey) -> Result<ConnectionPermit, Refusal> {
        let mut held = self.lock();
        let free = self.permits_max.saturating_sub(held.all);
        if free == 0 {
            return Err(held.count(Refusal::Process));
        }
        let service_max = free.max(self.service_share_min);
        if !take(&mut held.services, service, service_max) {
            return Err(held.count(Refusal::Service));
        }
        let namespace_max = free.saturating_mul(2).max(self.service_share_min);
        if !take(&mut held.namespaces, &service.namespace, namespace_max) {
            release(&mut held.services, service);
            return Err(held.count(Refusal::Service));
        }
        held.all += 1;
        Ok(ConnectionPermit {
            permits: Arc::clone(self),
            service: service.clone(),
            client: None,
        })
    }

    /// Returns the number of refusals by limit.
    pub(super) fn refusals(&self) -> PermitRefusals {
        self.lock().refusals
    }

    fn lock(&self) -> MutexGuard<'_, PermitCounts> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Counts the permit against the share of its client.
    ///
    /// # Errors
    ///
    /// [`Refusal::Client`]; the permit is released then.
    pub(super) fn for_client(mut self, client: IpAddr) -> Result<Self, Refusal> {
        let mut held = self.permits.lock();
        let client = held.counted_client(client);
        if !take(&mut held.clients, &client, self.permits.client_share_max) {
            return Err(held.count(Refusal::Client));
        }
        drop(held);
        self.client = Some(client);
        Ok(self)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut held = self.permits.lock();
        held.all = held.all.saturating_sub(1);
        release(&mut held.services, &self.service);
        release(&mut held.namespaces, &self.service.namespace);
        if let Some(client) = &self.client {
            release(&mut held.clients, client);
        }
    }
}

/// Counts one more permit of a holder. Returns false if it holds its share.
fn take<K: Clone + Eq + Hash>(held: &mut HashMap<K, usize>, holder: &K, share_max: usize) -> bool {
    match held.get_mut(holder) {
        Some(count) if *count >= share_max => return false,
        Some(count) => *count += 1,
        None => {
            held.insert(holder.clone(), 1);
        }
    }
    true
}

fn release<K: Eq + Hash>(held: &mut HashMap<K, usize>, holder: &K) {
    if let Some(count) = held.get_mut(holder) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            held.remove(holder);
        }
    }
}
