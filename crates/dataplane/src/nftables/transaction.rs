//! Transactions: some Services, and the elements that change for them.
//!
//! The kernel applies a transaction as a whole or not at all. Chains and verdicts precede all removals, which precede
//! all additions. Each message has the number of its Service, so a refusal names the Services at fault, and the others
//! can be applied without them. The applied state changes first and is rolled back if the kernel refuses.

use std::collections::{HashMap, HashSet};

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, Refusal, Rule};
use plan::{Family, Plan};

use super::applied::{AppliedServices, ElementDifference, comment};
use super::bytes::MapBytes;
use super::delegation::Delegation;
use super::layout::Map;
use super::map_element::{MapElement, MapId};
use super::port::Port;
use super::verdict_codes::VerdictCodes;

/// Owner of messages that belong to no Service.
pub(super) const NO_OWNER: u32 = u32::MAX;

/// A change of Services as one kernel transaction. [`AppliedServices`] holds the new state already;
/// [`Transaction::roll_back`] restores the former one.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Changed Services with their former ports. The index is the owner number of their messages.
    services: Vec<(ObjectKey, Box<[Port]>)>,
    differences: Vec<ElementDifference>,
    common: ElementDifference,
    /// Verdict codes that the kernel lacks.
    codes: Vec<u32>,
}

impl Transaction {
    /// Replaces the applied state of Services by the plan, and collects the differences.
    pub(super) fn new<'k>(
        plan: &Plan,
        services: impl Iterator<Item = &'k ObjectKey>,
        delegation: &Delegation,
        applied: &mut AppliedServices,
        codes: &mut VerdictCodes,
    ) -> Self {
        let mut transaction = Self::default();
        let mut used = Vec::new();
        for service in services {
            let ports = applied.planned(plan, service, delegation, codes);
            if *ports == *applied.ports(service) {
                continue;
            }
            used.extend(ports.iter().flat_map(Port::codes));
            let mut own = ElementDifference::default();
            let former = applied.replace(service, ports, &mut own, &mut transaction.common);
            transaction.services.push((service.clone(), former));
            transaction.differences.push(own);
        }
        transaction.codes = codes.missing(used.into_iter());
        transaction
    }

    /// Returns the number of elements that are removed or added.
    pub(super) fn elements(&self) -> usize {
        let all = self.differences.iter().chain([&self.common]);
        all.map(|own| own.removed.len() + own.added.len()).sum::<usize>() + self.codes.len()
    }

    /// Builds the kernel transaction: chains and verdicts first, then all removals, then all additions.
    pub(super) fn batch(&self, table: &str, codes: &VerdictCodes) -> Batch {
        let mut batch = Batch::new(table, None);
        write_chains(&mut batch, &codes.missing_chains(&self.codes));
        let verdict_chains: Vec<MapElement> = self
            .codes
            .iter()
            .filter_map(|code| codes.element(*code))
            .collect();
        write_elements(&mut batch, Change::Add, &verdict_chains, NO_OWNER);
        for change in [Change::Delete, Change::Add] {
            write_elements(&mut batch, change, elements_of(&self.common, change), NO_OWNER);
            for (owner, own) in self.differences.iter().enumerate() {
                write_elements(&mut batch, change, elements_of(own, change), owner as u32);
            }
        }
        batch
    }

    /// Returns the member keys of a family that this transaction removes, and to which clients may have affinity.
    pub(super) fn departed_endpoints(&self, applied: &AppliedServices, family: Family) -> HashSet<MapBytes> {
        let members = |map_id: MapId| matches!(map_id, MapId::Map(Map::ClusterMembers | Map::LocalMembers, of) if of == family);
        let mut departed_endpoints = HashSet::new();
        for ((service, _), own) in self.services.iter().zip(&self.differences) {
            let removed = own.removed.iter().filter(|element| members(element.map_id));
            departed_endpoints.extend(removed.map(|element| element.key));
            if departed_endpoints.is_empty() {
                continue;
            }
            // An endpoint may leave one set and stay in the other.
            let mut elements = Vec::new();
            for port in applied
                .ports(service)
                .iter()
                .filter(|port| port.family() == family)
            {
                for map in [Map::ClusterMembers, Map::LocalMembers] {
                    port.append_elements(map, &comment(service, port), &mut elements);
                }
            }
            for element in elements {
                departed_endpoints.remove(&element.key);
            }
        }
        departed_endpoints
    }

    /// Returns the endpoints of a family to which clients may have affinity, and whose Service port gets another key.
    /// The map has the new key of the Service port by the former member key.
    pub(super) fn moved_members(
        &self,
        applied: &AppliedServices,
        family: Family,
    ) -> HashMap<MapBytes, MapBytes> {
        let has_affinities = |port: &&Port| port.is_sticky() && port.family() == family;
        let mut moved = HashMap::new();
        for (service, former) in &self.services {
            let former: Vec<&Port> = former.iter().filter(has_affinities).collect();
            if former.is_empty() {
                continue;
            }
            let now = applied.ports(service).iter().filter(has_affinities);
            let now: HashMap<_, &Port> = now.map(|port| (port.identity(), port)).collect();
            for former in former {
                let Some(now) = now.get(&former.identity()) else {
                    continue;
                };
                let (former_key, key) = (former.key(), now.key());
                if former_key != key {
                    moved.extend(now.numbers().map(|number| (former_key.mark(number), key)));
                }
            }
        }
        moved
    }

    /// Records that the kernel holds the verdict codes of this transaction.
    pub(super) fn mark_applied(self, codes: &mut VerdictCodes) {
        codes.mark_applied(&self.codes);
    }

    /// Restores the applied state from before this transaction.
    pub(super) fn roll_back(self, applied: &mut AppliedServices) {
        let (mut own, mut common) = (ElementDifference::default(), ElementDifference::default());
        for (service, former) in self.services.into_iter().rev() {
            applied.replace(&service, former, &mut own, &mut common);
        }
    }

    /// Returns the Services whose messages the kernel refused, with its reasons. Returns `None` if the kernel's state
    /// differs from the applied state, which is not a fault of a Service.
    pub(super) fn refused(&self, error: &CommitError) -> Option<Vec<(ObjectKey, String)>> {
        let CommitError::Refused { refusals } = error else {
            return None;
        };
        if refusals.iter().any(Refusal::is_drift) {
            return None;
        }
        refusals
            .iter()
            .map(|refusal| {
                let (service, _) = self.services.get(refusal.owner? as usize)?;
                Some((service.clone(), refusal.to_string()))
            })
            .collect()
    }
}

/// Adds chains first, then their rules, because rules may jump to any of them.
pub(super) fn write_chains(batch: &mut Batch, chains: &[(Chain, Vec<Rule>)]) {
    for (chain, _) in chains {
        batch.chain(Change::Add, chain, NO_OWNER);
    }
    for (chain, rules) in chains {
        for rule in rules {
            batch.rule(&chain.name, rule, NO_OWNER);
        }
    }
}

/// Adds or deletes elements. Consecutive elements of one map share a message.
pub(super) fn write_elements(batch: &mut Batch, change: Change, elements: &[MapElement], owner: u32) {
    for same in elements.chunk_by(|a: &MapElement, b: &MapElement| a.map_id == b.map_id) {
        let map_id: Option<MapId> = same.first().map(|element| element.map_id);
        let Some(map_id) = map_id else { continue };
        let mut list = batch.elements(change, map_id.name(), owner);
        for element in same {
            list.push(&element.as_netlink());
        }
    }
}

fn elements_of(difference: &ElementDifference, change: Change) -> &[MapElement] {
    match change {
        Change::Delete => &difference.removed,
        Change::Add => &difference.added,
    }
}
