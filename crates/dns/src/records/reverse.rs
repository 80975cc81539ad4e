//! Names of addresses: the index behind PTR.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use super::service::ServiceKey;
use crate::wire::Name;

/// Parts of the map that are locked apart, so that a change hardly ever meets a query.
const SHARDS: usize = 32;

/// Whose an address is.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) service: ServiceKey,
    /// Host name of the endpoint; without one the address is the name.
    pub(super) hostname: Option<Arc<str>>,
    /// How many endpoints of the Service say so; slices overlap while endpoints move between them.
    count: u32,
}

/// Owners by address.
#[derive(Debug)]
pub(super) struct Reverse {
    shards: Box<[RwLock<HashMap<IpAddr, Vec<Owner>>>]>,
    hasher: RandomState,
}

impl Reverse {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Counts an owner in.
    pub(super) fn add(&self, address: IpAddr, service: &ServiceKey, hostname: Option<&Arc<str>>) {
        let Some(shard) = self.shard(address) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let owners = shard.entry(address).or_insert_with(|| Vec::with_capacity(1));
        match owners.iter_mut().find(|owner| owner.is(service, hostname)) {
            Some(owner) => owner.count += 1,
            None => {
                // Nearly every address has one owner; growing by doubling would cost memory for all.
                owners.reserve_exact(1);
                owners.push(Owner {
                    service: service.clone(),
                    hostname: hostname.cloned(),
                    count: 1,
                });
            }
        }
    }

    /// Counts an owner out.
    pub(super) fn remove(&self, address: IpAddr, service: &ServiceKey, hostname: Option<&Arc<str>>) {
        let Some(shard) = self.shard(address) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let Some(owners) = shard.get_mut(&address) else {
            return;
        };
        if let Some(at) = owners.iter().position(|owner| owner.is(service, hostname))
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

    /// Calls `read` with the owners of an address, of which there may be none.
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
    fn is(&self, service: &ServiceKey, hostname: Option<&Arc<str>>) -> bool {
        self.service == *service && self.hostname.as_ref() == hostname
    }
}

/// The address that a name below `in-addr.arpa` stands for: four labels, the last octet first.
pub(super) fn address_of_v4_name(name: &Name, zone_at: usize) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut labels = name.labels().take_while(|(at, _)| *at < zone_at);
    for octet in octets.iter_mut().rev() {
        let (_, label) = labels.next()?;
        // `01` and `+1` are numbers to the parser, but not spelled as addresses are.
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

/// The address that a name below `ip6.arpa` stands for: 32 nibbles, the last first.
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
