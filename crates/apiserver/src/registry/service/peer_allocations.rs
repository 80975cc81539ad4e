//! Allocations of other API servers on the same store, which are observed by watches on the records.
//!
//! Two servers can still choose the same address at the same time. Then one transaction fails, and its server decides
//! again. Correctness therefore does not depend on this state, which only makes collisions rare. The state can be
//! outdated, and can free an address that a write in progress has reserved.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use store::{EventKind, Index, StoreError, Watch};

use super::allocation::lock;
use super::pools::Pools;
use super::records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX};
use crate::verbs::resource::Resources;

/// Interval at which the allocators are brought up to date without requests.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches on the allocation records.
pub(super) struct PeerAllocations {
    addresses: Watch,
    ports: Watch,
    ranges: Watch,
}

/// A change of a ServiceCIDR.
pub(super) enum RangeChange {
    Written(Value),
    Removed(String),
}

impl PeerAllocations {
    /// Starts the watches and loads the current allocations.
    pub(super) fn start(index: &Index, pools: &Mutex<Pools>) -> Result<PeerAllocations, StoreError> {
        let revision = index.revision();
        let peers = PeerAllocations {
            addresses: index.watch(IP_ADDRESSES_PREFIX, revision)?,
            ports: index.watch(NODE_PORTS_PREFIX, revision)?,
            ranges: index.watch(SERVICE_CIDRS_PREFIX, revision)?,
        };
        reload(index, pools)?;
        Ok(peers)
    }

    /// Applies the changes since the last call, and returns those of ServiceCIDRs. Reads everything again if a
    /// watch has lagged.
    pub(super) fn catch_up(&mut self, index: &Index, pools: &Mutex<Pools>) -> Vec<RangeChange> {
        let mut ranges = Vec::new();
        if let Err(error) = self.drain(index, pools, &mut ranges) {
            tracing::info!(%error, "watch of allocations lagged; reading all records");
            match PeerAllocations::start(index, pools) {
                Ok(peers) => *self = peers,
                Err(error) => tracing::warn!(%error, "allocations of other servers not readable"),
            }
            ranges.extend(all_ranges(index));
        }
        ranges
    }

    fn drain(
        &mut self,
        index: &Index,
        pools: &Mutex<Pools>,
        ranges: &mut Vec<RangeChange>,
    ) -> Result<(), StoreError> {
        while let Some(event) = self.addresses.try_next()? {
            let Some(address) = suffix::<IpAddr>(&event.key, IP_ADDRESSES_PREFIX) else {
                continue;
            };
            // The current state counts: a later change has a further event.
            match index.get(&event.key) {
                Some(_) => drop(lock(pools).mark_taken(address)),
                None => lock(pools).release_address(address),
            }
        }
        while let Some(event) = self.ports.try_next()? {
            let Some(port) = suffix::<u16>(&event.key, NODE_PORTS_PREFIX) else {
                continue;
            };
            match index.get(&event.key) {
                // The port may be reserved already, by this server.
                Some(_) => drop(lock(pools).take_port(port.into())),
                None => lock(pools).release_port(port),
            }
        }
        while let Some(event) = self.ranges.try_next()? {
            let name = event.key.trim_start_matches(SERVICE_CIDRS_PREFIX).to_owned();
            ranges.extend(match event.kind {
                EventKind::Deleted => Some(RangeChange::Removed(name)),
                _ => serde_json::from_slice(&event.value)
                    .ok()
                    .map(RangeChange::Written),
            });
        }
        Ok(())
    }
}

/// Marks recorded addresses and ports as taken, and frees all others.
fn reload(index: &Index, pools: &Mutex<Pools>) -> Result<(), StoreError> {
    let entries = index.list(IP_ADDRESSES_PREFIX, None, None, None)?.entries;
    let recorded: HashSet<IpAddr> = entries
        .iter()
        .filter_map(|entry| suffix(&entry.key, IP_ADDRESSES_PREFIX))
        .collect();
    let mut pools = lock(pools);
    let gone: Vec<IpAddr> = pools
        .taken()
        .filter(|address| !recorded.contains(address))
        .collect();
    gone.into_iter()
        .for_each(|address| pools.release_address(address));
    for address in recorded {
        pools.mark_taken(address);
    }
    let entries = index.list(NODE_PORTS_PREFIX, None, None, None)?.entries;
    let recorded: HashSet<u16> = entries
        .iter()
        .filter_map(|entry| suffix(&entry.key, NODE_PORTS_PREFIX))
        .collect();
    for port in 1..=u16::MAX {
        if recorded.contains(&port) {
            // Both errors are expected: the port is taken already, or out of the range.
            drop(pools.take_port(port.into()));
        } else {
            pools.release_port(port);
        }
    }
    Ok(())
}

fn all_ranges(index: &Index) -> Vec<RangeChange> {
    let Ok(listing) = index.list(SERVICE_CIDRS_PREFIX, None, None, None) else {
        return Vec::new();
    };
    let ranges = listing
        .entries
        .iter()
        .filter_map(|entry| serde_json::from_slice(&entry.value).ok());
    ranges.map(RangeChange::Written).collect()
}

fn suffix<T: std::str::FromStr>(key: &str, prefix: &str) -> Option<T> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// Keeps the allocators up to date until shutdown, if several servers share the store.
pub(crate) async fn follow_peers(resources: Arc<Resources>) {
    if !resources.store.is_shared() {
        return;
    }
    let mut shutdown = resources.shutdown.clone();
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        resources.services.catch_up(resources.store.index());
    }
}
