//! Drift between the table and a plan, without a repair: for a process alongside the proxy.

use std::collections::BTreeMap;

use plan::Plan;

use crate::DataplaneError;

use super::map_element::MapElement;
use super::snapshot::{self, TableState};
use super::synchronize::Repair;
use super::{NftablesDataplane, base_ruleset, layout};

/// Differences between the table in the kernel and a plan. Chains and verdicts that no Service uses are not
/// differences, because the proxy keeps some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    differences: BTreeMap<TableObject, Kind>,
}

/// Object of the table: a chain, a set or map, or an element.
type TableObject = (String, Vec<u8>);

/// Kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Missing,
    Changed,
    Unexpected,
}

impl Drift {
    /// Returns the number of objects of the plan that the table lacks.
    pub fn missing(&self) -> usize {
        self.count(Kind::Missing)
    }

    /// Returns the number of objects that differ from the plan.
    pub fn changed(&self) -> usize {
        self.count(Kind::Changed)
    }

    /// Returns the number of objects that the plan does not contain.
    pub fn unexpected(&self) -> usize {
        self.count(Kind::Unexpected)
    }

    /// Returns true if the table is as planned.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns the differences that another comparison found, too. Differences of a single comparison may be changes that
    /// the proxy was about to write.
    pub fn common_with(mut self, other: &Self) -> Self {
        self.differences
            .retain(|place, kind| other.differences.get(place) == Some(kind));
        self
    }

    fn count(&self, kind: Kind) -> usize {
        self.differences.values().filter(|found| **found == kind).count()
    }

    fn add(&mut self, object: &str, key: &[u8], kind: Kind) {
        let place = (object.to_owned(), key.to_vec());
        self.differences
            .entry(place)
            // An element that is removed and added has changed.
            .and_modify(|known| *known = if *known == kind { kind } else { Kind::Changed })
            .or_insert(kind);
    }

    fn add_elements(&mut self, elements: &[MapElement], kind: Kind) {
        for element in elements {
            let key = [element.key.as_slice(), &[u8::from(element.is_interval_end)]].concat();
            self.add(element.map_id.name(), &key, kind);
        }
    }
}

impl NftablesDataplane {
    /// Compares the table in the kernel with a plan and writes nothing; `None` if there is no such table.
    ///
    /// # Errors
    ///
    /// An error if the table cannot be read.
    pub fn drift(&mut self, plan: &Plan) -> Result<Option<Drift>, DataplaneError> {
        let chains = base_ruleset::chains(plan, self.delegation.has_virtual_servers());
        self.codes.set_pods(&plan.settings().pods);
        match snapshot::table_state(&mut self.nftables, &self.table, &chains)? {
            TableState::Absent => Ok(None),
            TableState::Foreign => self.drift_of_damaged_table(plan).map(Some),
            TableState::Own => {
                let services = self.plan_services(plan, &[])?;
                let codes = self.used_codes();
                let repair = self.compare(plan, &chains, &services, &codes)?;
                Ok(Some(self.drift_of(&repair)))
            }
        }
    }

    fn drift_of(&self, repair: &Repair) -> Drift {
        let mut drift = Drift::default();
        for (chain, _) in &repair.chains {
            let is_present = repair.flushed.contains(&chain.name);
            let kind = if is_present { Kind::Changed } else { Kind::Missing };
            drift.add(&chain.name, &[], kind);
        }
        for (removed, added) in repair.differences() {
            let is_verdict = |element: &&MapElement| element.map_id.name() == layout::VERDICTS;
            let unexpected: Vec<MapElement> = removed
                .iter()
                .filter(|element| !is_verdict(element))
                .cloned()
                .collect();
            drift.add_elements(&unexpected, Kind::Unexpected);
            drift.add_elements(added, Kind::Missing);
        }
        drift
    }

    /// Returns the differences of a damaged table, or of one with another layout.
    fn drift_of_damaged_table(&mut self, plan: &Plan) -> Result<Drift, DataplaneError> {
        let mut drift = Drift::default();
        let desired = base_ruleset::table(&self.table);
        let found = self.nftables.table(&self.table)?;
        if found.is_some_and(|found| found.comment != desired.comment) {
            drift.add(&self.table, &[], Kind::Changed);
        }
        let sets = self.nftables.sets(&self.table)?;
        for desired in layout::sets() {
            match sets.iter().find(|set| set.name == desired.name) {
                None => drift.add(&desired.name, &[], Kind::Missing),
                Some(found) if *found != desired => drift.add(&desired.name, &[], Kind::Changed),
                Some(_) => {}
            }
        }
        let found = self.nftables.chains(&self.table)?;
        for (desired, _) in base_ruleset::chains(plan, self.delegation.has_virtual_servers()) {
            match found.iter().find(|chain| chain.name == desired.name) {
                None => drift.add(&desired.name, &[], Kind::Missing),
                Some(chain) if chain.base != desired.base => drift.add(&desired.name, &[], Kind::Changed),
                Some(_) => {}
            }
        }
        Ok(drift)
    }
}
