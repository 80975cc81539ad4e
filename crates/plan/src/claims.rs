//! Who has a frontend that several Services want: the one that was created first.

use std::collections::HashMap;
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};

use crate::service::ServiceRecord;
use crate::types::Family;

/// What a frontend is told from others by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrontendKey {
    pub(crate) family: Family,
    /// `None` for node ports.
    pub(crate) address: Option<IpAddr>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// One port of one Service that wants a frontend, in the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimant {
    created: u64,
    pub(crate) service: ObjectKey,
    pub(crate) port_index: usize,
}

/// Everyone who wants a frontend.
struct Claim {
    owner: Claimant,
    /// Those who come after the owner, sorted.
    waiting: Vec<Claimant>,
}

/// All frontends and cluster IPs of a plan, and whose they are.
#[derive(Default)]
pub(crate) struct Claims {
    frontends: HashMap<FrontendKey, Claim>,
    /// How many Services have a cluster IP.
    cluster_ips: HashMap<IpAddr, usize>,
}

impl Claims {
    /// Whose a frontend is.
    pub(crate) fn owner(&self, key: &FrontendKey) -> Option<&Claimant> {
        self.frontends.get(key).map(|claim| &claim.owner)
    }

    /// Whether a Service has this cluster IP.
    pub(crate) fn has_cluster_ip(&self, address: IpAddr) -> bool {
        self.cluster_ips.contains_key(&address)
    }

    /// Puts in the claims of a Service; returns the others who lose a frontend by that, or who
    /// must name another owner.
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

    /// Takes out the claims of a Service; returns the others who gain a frontend by that, or who must
    /// name another owner.
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
    /// Adds a claimant; tells whether it became the owner.
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

/// Calls `each` for every frontend that a Service wants.
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
