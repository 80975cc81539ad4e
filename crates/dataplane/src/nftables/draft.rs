//! A transaction in the making: some Services, and the elements that change for them.

use std::collections::HashSet;

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, Refusal, Rule};
use plan::{Family, Plan};

use super::bytes::Bytes;
use super::codes::Codes;
use super::in_force::{Difference, InForce, comment};
use super::item::{Item, Place};
use super::layout::Map;
use super::port::Port;
use super::stand_ins::StandIns;

/// The owner of messages that belong to no Service.
pub const NOBODY: u32 = u32::MAX;

/// What a transaction does. Services are already replaced in memory; [`Draft::undo`] puts them back.
#[derive(Debug, Default)]
pub struct Draft {
    /// The Services that change, by the number that owns their messages, with what they were.
    services: Vec<(ObjectKey, Box<[Port]>)>,
    differences: Vec<Difference>,
    common: Difference,
    /// Codes that the kernel does not know yet.
    codes: Vec<u32>,
}

impl Draft {
    /// Changes Services to what the plan has for them.
    pub fn new<'k>(
        plan: &Plan,
        services: impl Iterator<Item = &'k ObjectKey>,
        stand_ins: Option<&StandIns>,
        in_force: &mut InForce,
        codes: &mut Codes,
    ) -> Self {
        let mut draft = Self::default();
        let mut used = Vec::new();
        for service in services {
            let ports = in_force.planned(plan, service, stand_ins, codes);
            if *ports == *in_force.ports(service) {
                continue;
            }
            used.extend(ports.iter().flat_map(Port::codes));
            let mut own = Difference::default();
            let former = in_force.replace(service, ports, &mut own, &mut draft.common);
            draft.services.push((service.clone(), former));
            draft.differences.push(own);
        }
        draft.codes = codes.missing(used.into_iter());
        draft
    }

    /// How many elements go or come.
    pub fn elements(&self) -> usize {
        let all = self.differences.iter().chain([&self.common]);
        all.map(|own| own.going.len() + own.coming.len()).sum::<usize>() + self.codes.len()
    }

    /// The transaction. First what treatments need, then all that goes, then all that comes.
    pub fn batch(&self, table: &str, codes: &Codes) -> Batch {
        let mut batch = Batch::new(table, None);
        write_chains(&mut batch, &codes.missing_chains(&self.codes));
        let treatments: Vec<Item> = self.codes.iter().filter_map(|code| codes.item(*code)).collect();
        write_items(&mut batch, Change::Add, &treatments, NOBODY);
        for change in [Change::Delete, Change::Add] {
            write_items(&mut batch, change, items_of(&self.common, change), NOBODY);
            for (owner, own) in self.differences.iter().enumerate() {
                write_items(&mut batch, change, items_of(own, change), owner as u32);
            }
        }
        batch
    }

    /// Where clients may have been kept and may not be any more: keys of members that have gone, of a family.
    pub fn departed(&self, in_force: &InForce, family: Family) -> HashSet<Bytes> {
        let members = |place: Place| matches!(place, Place::Map(Map::ClusterMembers | Map::LocalMembers, of) if of == family);
        let mut departed = HashSet::new();
        for ((service, _), own) in self.services.iter().zip(&self.differences) {
            let going = own.going.iter().filter(|item| members(item.place));
            departed.extend(going.map(|item| item.key));
            if departed.is_empty() {
                continue;
            }
            // An endpoint may have left one set and still be in the other.
            let mut items = Vec::new();
            for port in in_force
                .ports(service)
                .iter()
                .filter(|port| port.family() == family)
            {
                for map in [Map::ClusterMembers, Map::LocalMembers] {
                    port.items(map, &comment(service, port), &mut items);
                }
            }
            for item in items {
                departed.remove(&item.key);
            }
        }
        departed
    }

    /// Takes note that the transaction is in force.
    pub fn keep(self, codes: &mut Codes) {
        codes.put_in_force(&self.codes);
    }

    /// Puts back what was in force before.
    pub fn undo(self, in_force: &mut InForce) {
        let (mut own, mut common) = (Difference::default(), Difference::default());
        for (service, former) in self.services.into_iter().rev() {
            in_force.replace(&service, former, &mut own, &mut common);
        }
    }

    /// The Services whose messages the kernel refused, with its words. `None` if it is not the Services' fault,
    /// but the kernel's state is not what was written.
    pub fn refused(&self, error: &CommitError) -> Option<Vec<(ObjectKey, String)>> {
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

/// Adds chains, then their rules.
pub fn write_chains(batch: &mut Batch, chains: &[(Chain, Vec<Rule>)]) {
    for (chain, _) in chains {
        batch.chain(Change::Add, chain, NOBODY);
    }
    for (chain, rules) in chains {
        for rule in rules {
            batch.rule(&chain.name, rule, NOBODY);
        }
    }
}

/// Adds or deletes elements, those of one place that come after each other in one list.
pub fn write_items(batch: &mut Batch, change: Change, items: &[Item], owner: u32) {
    for same in items.chunk_by(|a: &Item, b: &Item| a.place == b.place) {
        let place: Option<Place> = same.first().map(|item| item.place);
        let Some(place) = place else { continue };
        let mut list = batch.elements(change, place.name(), owner);
        for item in same {
            list.push(&item.element());
        }
    }
}

fn items_of(difference: &Difference, change: Change) -> &[Item] {
    match change {
        Change::Delete => &difference.going,
        Change::Add => &difference.coming,
    }
}
