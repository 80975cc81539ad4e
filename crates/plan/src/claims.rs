//! Ownership of frontends. If several Services claim a frontend, the oldest one owns it.

use std::collections::HashMap;
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};

use crate::service::ServiceRecord;
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

/// Claimants of one frontend.
struct Claim {
    owner: Claimant,
    /// Claimants after the owner, sorted.
    waiting: Vec<Claimant>,
}

/// Claims on all frontends and cluster IPs of a plan.
#[derive(Default)]
pub(crate) struct Claims {
    frontends: HashMap<FrontendKey, Claim>,
    /// Number of Services by cluster IP.
    cluster_ips: HashMap<IpAddr, usize>,
}

impl Claims {
    /// Returns the owner of a frontend.
    pub(crate) fn owner(&self, key: &FrontendKey) -> Option<&Claimant> {
        self.frontends.get(key).map(|claim| &claim.owner)
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
        for_each(service, record, |key, claimant| match self.frontends.entry(key) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Claim {
                    owner: claimant,
                    waiting: Vec::new(),
                });
            }
            std::collections::hash_map::Entry::Occupied(mut taken) => {
                if taken.get_mut().join(claimant) {
                    concerned.extend(taken.get().waiting.iter().map(|waiting| waiting.service.clone()));
                }
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
            let Some(claim) = self.frontends.get_mut(&key) else {
                return;
            };
            if claim.owner != claimant {
                claim.waiting.retain(|waiting| *waiting != claimant);
            } else if claim.waiting.is_empty() {
                self.frontends.remove(&key);
            } else {
                claim.owner = claim.waiting.remove(0);
                concerned.push(claim.owner.service.clone());
                concerned.extend(claim.waiting.iter().map(|waiting| waiting.service.clone()));
            }
        });
        concerned
    }
}

impl Claim {
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
