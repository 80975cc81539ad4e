//! Ownership of frontends. If several Services claim a frontend, the oldest one owns it. Services with one
//! creation time have the order of their namespaces and names.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};

use crate::port_ranges::PortRange;
use crate::service::{FamilyRecord, ServiceRecord};
use crate::types::Family;

/// Identity of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrontendKey {
    pub(crate) family: Family,
    /// Address; `None` for node ports.
    pub(crate) address: Option<IpAddr>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// A port of a Service that claims a frontend, in the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimant {
    created: u64,
    pub(crate) service: ObjectKey,
    pub(crate) port_index: usize,
}

/// Owner of one frontend, or of the answers to echo requests to one address.
struct FrontendOwner {
    owner: Claimant,
    /// Claimants after the owner, sorted.
    waiting: Vec<Claimant>,
}

/// Claim of a Service on a range of ports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RangeClaim {
    claimant: Claimant,
    range: PortRange,
}

/// Claims on all frontends and cluster IPs of a plan.
#[derive(Default)]
pub(crate) struct Claims {
    frontends: HashMap<FrontendKey, FrontendOwner>,
    /// Claims on port ranges, in the order of precedence.
    ranges: HashMap<(IpAddr, Protocol), Vec<RangeClaim>>,
    /// Claims on answers to echo requests.
    pings: HashMap<IpAddr, FrontendOwner>,
    /// Number of Services by cluster IP.
    cluster_ips: HashMap<IpAddr, usize>,
}

impl Claims {
    /// Returns the owner of a frontend.
    pub(crate) fn owner(&self, key: &FrontendKey) -> Option<&Claimant> {
        self.frontends.get(key).map(|frontend| &frontend.owner)
    }

    /// Returns the oldest Service whose range overlaps. Its own range can overlap with that of an even older Service.
    /// Then it owns no port of its range, because a Service owns a range as a whole or not at all.
    pub(crate) fn range_owner(
        &self,
        address: IpAddr,
        protocol: Protocol,
        range: PortRange,
    ) -> Option<&ObjectKey> {
        let claims = self.ranges.get(&(address, protocol))?;
        let first = claims.iter().find(|claim| claim.range.overlaps(range))?;
        Some(&first.claimant.service)
    }

    /// Returns the Service that decides about echo requests to an address.
    pub(crate) fn ping_owner(&self, address: IpAddr) -> Option<&ObjectKey> {
        self.pings.get(&address).map(|pings| &pings.owner.service)
    }

    /// Returns true if a Service has this cluster IP.
    pub(crate) fn has_cluster_ip(&self, address: IpAddr) -> bool {
        self.cluster_ips.contains_key(&address)
    }

    /// Adds the claims of a Service. Returns the other Services that lose a frontend, or whose faults name another
    /// owner.
    pub(crate) fn add(&mut self, service: &ObjectKey, record: &ServiceRecord) -> Vec<ObjectKey> {
        let mut concerned = Vec::new();
        for family in &record.families {
            *self.cluster_ips.entry(family.cluster_ip).or_default() += 1;
        }
        for_each(service, record, |key, claimant| {
            join(&mut self.frontends, key, claimant, &mut concerned);
        });
        for address in ping_addresses(record) {
            join(
                &mut self.pings,
                address,
                claimant_without_port(service, record),
                &mut concerned,
            );
        }
        for_each_range(service, record, |key, claim| {
            let claims = self.ranges.entry(key).or_default();
            concerned.extend(overlapping_services(claims, &claim));
            if let Err(index) = claims.binary_search(&claim) {
                claims.insert(index, claim);
            }
        });
        concerned
    }

    /// Removes the claims of a Service. Returns the other Services that gain a frontend, or whose faults name another
    /// owner.
    pub(crate) fn remove(&mut self, service: &ObjectKey, record: &ServiceRecord) -> Vec<ObjectKey> {
        let mut concerned = Vec::new();
        for family in &record.families {
            if let Some(count) = self.cluster_ips.get_mut(&family.cluster_ip) {
                *count -= 1;
                if *count == 0 {
                    self.cluster_ips.remove(&family.cluster_ip);
                }
            }
        }
        for_each(service, record, |key, claimant| {
            remove_claimant(&mut self.frontends, &key, &claimant, &mut concerned);
        });
        for address in ping_addresses(record) {
            remove_claimant(
                &mut self.pings,
                &address,
                &claimant_without_port(service, record),
                &mut concerned,
            );
        }
        for_each_range(service, record, |key, claim| {
            let Some(claims) = self.ranges.get_mut(&key) else {
                return;
            };
            claims.retain(|known| *known != claim);
            concerned.extend(overlapping_services(claims, &claim));
            if claims.is_empty() {
                self.ranges.remove(&key);
            }
        });
        concerned
    }
}

impl FrontendOwner {
    /// Adds a claimant. Returns true if it became the owner.
    fn join(&mut self, claimant: Claimant) -> bool {
        if claimant < self.owner {
            let former = std::mem::replace(&mut self.owner, claimant);
            self.waiting.insert(0, former);
            return true;
        }
        if claimant != self.owner
            && let Err(index) = self.waiting.binary_search(&claimant)
        {
            self.waiting.insert(index, claimant);
        }
        false
    }
}

/// Adds a claimant, and the Services that this concerns.
fn join<K: Eq + Hash>(
    owners: &mut HashMap<K, FrontendOwner>,
    key: K,
    claimant: Claimant,
    concerned: &mut Vec<ObjectKey>,
) {
    match owners.entry(key) {
        Entry::Vacant(free) => {
            free.insert(FrontendOwner {
                owner: claimant,
                waiting: Vec::new(),
            });
        }
        Entry::Occupied(mut taken) => {
            if taken.get_mut().join(claimant) {
                concerned.extend(taken.get().waiting.iter().map(|waiting| waiting.service.clone()));
            }
        }
    }
}

/// Removes a claimant, and adds the Services that this concerns.
fn remove_claimant<K: Eq + Hash>(
    owners: &mut HashMap<K, FrontendOwner>,
    key: &K,
    claimant: &Claimant,
    concerned: &mut Vec<ObjectKey>,
) {
    let Some(frontend) = owners.get_mut(key) else {
        return;
    };
    if frontend.owner != *claimant {
        frontend.waiting.retain(|waiting| waiting != claimant);
    } else if frontend.waiting.is_empty() {
        owners.remove(key);
    } else {
        frontend.owner = frontend.waiting.remove(0);
        concerned.push(frontend.owner.service.clone());
        concerned.extend(frontend.waiting.iter().map(|waiting| waiting.service.clone()));
    }
}

/// Returns the other Services with claims that overlap a claim.
fn overlapping_services(claims: &[RangeClaim], claim: &RangeClaim) -> Vec<ObjectKey> {
    let others = claims.iter().filter(|other| {
        other.claimant.service != claim.claimant.service && other.range.overlaps(claim.range)
    });
    others.map(|other| other.claimant.service.clone()).collect()
}

/// Returns a Service as the claimant of addresses and ranges without a port.
fn claimant_without_port(service: &ObjectKey, record: &ServiceRecord) -> Claimant {
    Claimant {
        created: record.created,
        service: service.clone(),
        port_index: 0,
    }
}

/// Returns the addresses of a Service in all families, without duplicates.
fn addresses(record: &ServiceRecord) -> impl Iterator<Item = IpAddr> + '_ {
    let all = record.families.iter().flat_map(FamilyRecord::addresses);
    all.map(|(_, address)| address)
}

/// Returns the addresses of a Service at which it decides about echo requests, in all families.
fn ping_addresses(record: &ServiceRecord) -> impl Iterator<Item = IpAddr> + '_ {
    let all = record.families.iter().flat_map(FamilyRecord::ping_addresses);
    all.map(|(_, address)| address)
}

/// Calls `each` for every range and address that a Service claims.
fn for_each_range(
    service: &ObjectKey,
    record: &ServiceRecord,
    mut each: impl FnMut((IpAddr, Protocol), RangeClaim),
) {
    if record.port_ranges.is_empty() {
        return;
    }
    for address in addresses(record) {
        for (protocol, range) in record.port_ranges.iter() {
            let claimant = claimant_without_port(service, record);
            each((address, protocol), RangeClaim { claimant, range });
        }
    }
}

/// Calls `each` for every frontend that a Service claims.
fn for_each(service: &ObjectKey, record: &ServiceRecord, mut each: impl FnMut(FrontendKey, Claimant)) {
    for family in &record.families {
        for (port_index, port) in record.ports.iter().enumerate() {
            for (_, key) in family.frontends(port) {
                each(
                    key,
                    Claimant {
                        created: record.created,
                        service: service.clone(),
                        port_index,
                    },
                );
            }
        }
    }
}
