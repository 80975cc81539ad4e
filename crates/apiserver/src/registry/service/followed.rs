//! What other API servers allocate from the same store: seen by watches on the records, and taken over.
//!
//! Two servers may still choose the same address at the same time; then the transaction of one of them fails, and it
//! decides anew. So what is here may lag behind, and may even free what a write under way has reserved: it
//! only makes collisions rare.

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

/// How often the allocators are brought up to date when no request does it.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches on the records.
pub(super) struct Followed {
    addresses: Watch,
    ports: Watch,
    ranges: Watch,
}

/// A change of a ServiceCIDR.
pub(super) enum RangeChange {
    Written(Value),
    Removed(String),
}

impl Followed {
    /// Follows from now on; what is allocated now is taken over.
    pub(super) fn begin(index: &Index, pools: &Mutex<Pools>) -> Result<Followed, StoreError> {
        let revision = index.revision();
        let followed = Followed {
            addresses: index.watch(IP_ADDRESSES_PREFIX, revision)?,
            ports: index.watch(NODE_PORTS_PREFIX, revision)?,
            ranges: index.watch(SERVICE_CIDRS_PREFIX, revision)?,
        };
        take_over(index, pools)?;
        Ok(followed)
    }

    /// Takes over what happened; gives the changes of ServiceCIDRs. If too much happened, everything is read.
    pub(super) fn catch_up(&mut self, index: &Index, pools: &Mutex<Pools>) -> Vec<RangeChange> {
        let mut ranges = Vec::new();
        if let Err(error) = self.drain(index, pools, &mut ranges) {
            tracing::info!(%error, "the allocations of other servers are read anew");
            match Followed::begin(index, pools) {
                Ok(followed) => *self = followed,
                Err(error) => tracing::warn!(%error, "the allocations of other servers cannot be read"),
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
            // What has changed again meanwhile has another event behind this one.
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
                // One that is taken here already is our own.
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

/// Marks as taken what is recorded, and frees what is not.
fn take_over(index: &Index, pools: &Mutex<Pools>) -> Result<(), StoreError> {
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
            // One that is taken already stays so; one out of the range is nobody's here.
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

/// Keeps the allocators up to date until the server ends, if other servers can allocate.
pub(crate) async fn follow_others(resources: Arc<Resources>) {
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
