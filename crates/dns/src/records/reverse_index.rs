//! Index of names by address, for PTR queries.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use super::service::ServiceKey;
use crate::wire::Name;

/// Number of shards with a lock each, so that a change rarely blocks a query.
const SHARDS: usize = 32;

/// A name of an address.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) service: ServiceKey,
    /// Host name of the endpoint; without one, the name is the address.
    pub(super) hostname: Option<Arc<str>>,
    /// Number of endpoints with this name and address; slices overlap while endpoints move between them.
    count: u32,
}

/// Owners by address.
#[derive(Debug)]
pub(super) struct ReverseIndex {
    shards: Box<[RwLock<HashMap<IpAddr, Vec<Owner>>>]>,
    hasher: RandomState,
}

impl ReverseIndex {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Adds an owner, or increments its count.
    pub(super) fn add(&self, address: IpAddr, service: &ServiceKey, hostname: Option<&Arc<str>>) {
        let Some(shard) = self.shard(address) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let owners = shard.entry(address).or_insert_with(|| Vec::with_capacity(1));
        match owners.iter_mut().find(|owner| owner.matches(service, hostname)) {
            Some(owner) => owner.count += 1,
            None => {
                // Most addresses have one owner; growing by doubling would waste memory for all of them.
                owners.reserve_exact(1);
                owners.push(Owner {
                    service: service.clone(),
                    hostname: hostname.cloned(),
                    count: 1,
                });
            }
        }
    }

    /// Decrements the count of an owner, and removes it at zero.
    pub(super) fn remove(&self, address: IpAddr, service: &ServiceKey, hostname: Option<&Arc<str>>) {
        let Some(shard) = self.shard(address) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let Some(owners) = shard.get_mut(&address) else {
            return;
        };
        if let Some(at) = owners.iter().position(|owner| owner.matches(service, hostname))
            && let Some(owner) = owners.get_mut(at)
        {
            owner.count -= 1;
            if owner.count == 0 {
                owners.remove(at);
            }
        }
        if owners.is_empty() {
            shard.remove(&address);
        }
    }

    /// Calls `read` with the owners of an address; there may be none.
    pub(super) fn read<R>(&self, address: IpAddr, read: impl FnOnce(&[Owner]) -> R) -> R {
        let Some(shard) = self.shard(address) else {
            return read(&[]);
        };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        read(shard.get(&address).map_or(&[], Vec::as_slice))
    }

    fn shard(&self, address: IpAddr) -> Option<&RwLock<HashMap<IpAddr, Vec<Owner>>>> {
        let hash = usize::try_from(self.hasher.hash_one(address) % SHARDS as u64).unwrap_or(0);
        self.shards.get(hash)
    }
}

impl Owner {
    fn matches(&self, service: &ServiceKey, hostname: Option<&Arc<str>>) -> bool {
        self.service == *service && self.hostname.as_ref() == hostname
    }
}

/// Returns the address of a name below `in-addr.arpa`: four labels, the last octet first.
pub(super) fn address_of_v4_name(name: &Name, zone_at: usize) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut labels = name.labels().take_while(|(at, _)| *at < zone_at);
    for octet in octets.iter_mut().rev() {
        let (_, label) = labels.next()?;
        // The parser accepts `01` and `+1`, which no address contains.
        let plain = label.len() <= 3
            && label.iter().all(u8::is_ascii_digit)
            && (label.len() == 1 || label.first() != Some(&b'0'));
        *octet = std::str::from_utf8(label).ok().filter(|_| plain)?.parse().ok()?;
    }
    labels
        .next()
        .is_none()
        .then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Returns the address of a name below `ip6.arpa`: 32 nibbles, the last one first.
pub(super) fn address_of_v6_name(name: &Name, zone_at: usize) -> Option<IpAddr> {
    let mut address: u128 = 0;
    let mut labels = name.labels().take_while(|(at, _)| *at < zone_at);
    for shift in (0..128).step_by(4) {
        let &[digit] = labels.next()?.1 else { return None };
        address |= u128::from(char::from(digit).to_digit(16)?) << shift;
    }
    labels
        .next()
        .is_none()
        .then(|| IpAddr::V6(Ipv6Addr::from(address)))
}
