//! Synchronization of the whole table with the plan: the first load, the takeover from an earlier process, and the
//! repair of unknown changes. Only differences are written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::RandomState;

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, Generation, Refusal, Rule, Table};
use plan::{Family, Plan};

use crate::{Applied, DataplaneError, SkippedService};

use super::applied::{AppliedServices, ElementDifference, comment, planned_ports};
use super::bytes::MapBytes;
use super::layout::{self, FAMILIES, Map};
use super::map_element::{MapElement, MapId};
use super::port::{Port, SharedElement};
use super::snapshot::{self, Digest, FormerEndpoints, KernelElements, TableState};
use super::transaction::{NO_OWNER, write_chains, write_elements};
use super::{NftablesDataplane, ROUNDS_MAX, SERVICES_PER_TRANSACTION, base_ruleset, is_drift, ranges};

/// Maximum number of attempts to read and write the table while other programs change the ruleset. After that, the
/// transaction is written without the kernel's generation check.
const ATTEMPTS_MAX: usize = 4;

/// Changes that bring the table to the desired state.
#[derive(Default)]
pub(super) struct Repair {
    /// Chains that are missing or have other rules.
    pub(super) chains: Vec<(Chain, Vec<Rule>)>,
    /// Names of those chains that exist and are flushed first.
    pub(super) flushed: Vec<String>,
    /// Changed elements, by the owner number of their Service.
    differences: BTreeMap<u32, ElementDifference>,
    /// Chains that nothing jumps to.
    pub(super) stale_chains: Vec<String>,
    affinities: Vec<MapElement>,
    /// Number of elements and chains that differ.
    pub(super) count: usize,
}

impl NftablesDataplane {
    /// Applies the whole plan as differences to the kernel's state.
    pub(super) fn synchronize(&mut self, plan: &Plan) -> Result<Applied, DataplaneError> {
        let chains = base_ruleset::chains(plan, self.delegation.has_virtual_servers());
        self.codes.set_pods(&plan.settings().pods);
        match snapshot::table_state(&mut self.nftables, &self.table, &chains)? {
            TableState::Absent => self.load(plan, chains, false),
            TableState::Foreign => {
                tracing::warn!(
                    table = self.table,
                    "table damaged or of another layout; written again"
                );
                self.load(plan, chains, true)
            }
            TableState::Own => self.write_differences(plan, chains),
        }
    }

    /// Creates the table and loads all Services. The table is dormant until all are present. Another proxy may serve
    /// them meanwhile. A part of the rules would drop packets to cluster IPs that are not loaded yet.
    fn load(
        &mut self,
        plan: &Plan,
        chains: Vec<(Chain, Vec<Rule>)>,
        is_table_present: bool,
    ) -> Result<Applied, DataplaneError> {
        self.is_in_sync = false;
        self.ledger.start(self.nftables.generation()?);
        self.applied = AppliedServices::default();
        self.codes = super::VerdictCodes::new(plan.settings().pods.clone());
        self.ranges = ranges::elements(plan.settings());
        let table = base_ruleset::table(&self.table);
        let dormant_table = Table {
            is_dormant: true,
            ..table.clone()
        };
        let mut batch = Batch::new(&self.table, None);
        if is_table_present {
            batch.table(Change::Delete, &table, NO_OWNER);
        }
        batch.table(Change::Add, &dormant_table, NO_OWNER);
        for set in layout::sets() {
            batch.set(Change::Add, &set, NO_OWNER);
        }
        write_chains(&mut batch, &chains);
        write_elements(&mut batch, Change::Add, &base_ruleset::masqueraded(), NO_OWNER);
        write_elements(&mut batch, Change::Add, &self.ranges, NO_OWNER);
        self.commit(batch)?;
        self.chains = chains;
        let services: Vec<ObjectKey> = plan.services().cloned().collect();
        let mut total = Applied::default();
        for some in services.chunks(SERVICES_PER_TRANSACTION) {
            let applied = self.apply_services(plan, some)?;
            total.elements += applied.elements;
            total.skipped.extend(applied.skipped);
        }
        let mut batch = Batch::new(&self.table, None);
        batch.table(Change::Add, &table, NO_OWNER);
        self.commit(batch)?;
        self.is_in_sync = true;
        Ok(total)
    }

    /// Writes the differences between the table and the plan.
    fn write_differences(
        &mut self,
        plan: &Plan,
        chains: Vec<(Chain, Vec<Rule>)>,
    ) -> Result<Applied, DataplaneError> {
        let mut skipped: Vec<SkippedService> = Vec::new();
        let (mut attempts, mut rounds) = (0, 0);
        loop {
            let generation = self.nftables.generation()?;
            let services = self.plan_services(plan, &skipped)?;
            let codes = self.used_codes();
            let repair = self.compare(plan, &chains, &services, &codes)?;
            let expected = (attempts < ATTEMPTS_MAX).then_some(generation);
            self.ledger.start(generation);
            let error = match self.commit(repair.batch(&self.table, expected)) {
                Ok(()) => {
                    self.codes.set_applied(&codes);
                    self.chains = chains;
                    self.ranges = ranges::elements(plan.settings());
                    self.is_in_sync = true;
                    self.unverified_maps = 0;
                    self.clean_up(&repair);
                    return Ok(Applied {
                        elements: repair.count,
                        skipped,
                    });
                }
                Err(error) if is_drift(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    continue;
                }
                Err(error) => error,
            };
            self.is_in_sync = false;
            rounds += 1;
            match refused(&error, &services) {
                Some(refused) if rounds < ROUNDS_MAX => skipped.extend(refused),
                _ => return Err(error.into()),
            }
        }
    }

    /// Computes the elements of all Services, with endpoints at their indexes in the kernel. Returns the Services by
    /// owner number.
    pub(super) fn plan_services(
        &mut self,
        plan: &Plan,
        skipped: &[SkippedService],
    ) -> Result<Vec<ObjectKey>, DataplaneError> {
        let former = if self.is_in_sync {
            None
        } else {
            snapshot::read_codes(&mut self.nftables, &self.table, &mut self.codes)?;
            Some(FormerEndpoints::read(&mut self.nftables, &self.table)?)
        };
        let mut applied = AppliedServices::default();
        let (mut own, mut common) = (ElementDifference::default(), ElementDifference::default());
        let mut services = Vec::new();
        for service in plan.services() {
            if skipped.iter().any(|skipped| skipped.service == *service) {
                continue;
            }
            let codes = &mut self.codes;
            let ports: Box<[Port]> = match &former {
                None => self.applied.planned(plan, service, &self.delegation, codes),
                Some(former) => planned_ports(
                    plan,
                    service,
                    &self.delegation,
                    |key, set| former.endpoints(key, set),
                    codes,
                ),
            };
            applied.replace(service, ports, &mut own, &mut common);
            own.added.clear();
            common.added.clear();
            services.push(service.clone());
        }
        self.applied = applied;
        Ok(services)
    }

    pub(super) fn used_codes(&self) -> Vec<u32> {
        let used: HashSet<u32> = self
            .applied
            .services()
            .flat_map(|(_, ports)| ports.iter().flat_map(Port::codes))
            .collect();
        used.into_iter().collect()
    }

    /// Compares the table with the plan.
    pub(super) fn compare(
        &mut self,
        plan: &Plan,
        chains: &[(Chain, Vec<Rule>)],
        services: &[ObjectKey],
        codes: &[u32],
    ) -> Result<Repair, DataplaneError> {
        let mut repair = Repair::default();
        let mut desired_chains = chains.to_vec();
        desired_chains.extend(self.codes.chains_of(codes.iter()));
        repair.compare_chains(
            desired_chains,
            snapshot::read_chains(&mut self.nftables, &self.table)?,
        );

        let verdict_chains = codes
            .iter()
            .filter_map(|code| self.codes.element(*code))
            .collect();
        self.compare_map(MapId::Verdicts, verdict_chains, &mut repair)?;
        repair.discount_unused(self.codes.applied().filter(|code| !codes.contains(code)).count());
        self.compare_map(MapId::Masqueraded, base_ruleset::masqueraded(), &mut repair)?;
        let mut common = ranges::elements(plan.settings());
        common.extend(self.applied.shared().map(SharedElement::element));
        for family in FAMILIES {
            for map in [
                Map::Pods,
                Map::ServiceCidrs,
                Map::NodePortAddresses,
                Map::ClusterIps,
                Map::Hairpin,
            ] {
                let map_id = MapId::Map(map, family);
                let desired = common
                    .extract_if(.., |element| element.map_id == map_id)
                    .collect();
                self.compare_map(map_id, desired, &mut repair)?;
            }
            let members = self.compare_ports(family, services, &mut repair)?;
            let affinities = snapshot::stale_affinities(&mut self.nftables, &self.table, family, |member| {
                !members.contains(member)
            })?;
            repair.affinities.extend(affinities);
        }
        Ok(repair)
    }

    /// Compares the elements of a map that belong to no Service.
    pub(super) fn compare_map(
        &mut self,
        map_id: MapId,
        desired: Vec<MapElement>,
        repair: &mut Repair,
    ) -> Result<usize, DataplaneError> {
        self.compare_elements(map_id, repair, |_, each| {
            for element in &desired {
                each(element.clone(), NO_OWNER);
            }
        })
    }

    /// Compares the elements of all Services of a family. Returns the members that clients may have affinity to.
    fn compare_ports(
        &mut self,
        family: Family,
        services: &[ObjectKey],
        repair: &mut Repair,
    ) -> Result<HashSet<MapBytes>, DataplaneError> {
        let mut members = HashSet::new();
        for map in Map::OF_PORTS {
            self.compare_elements(MapId::Map(map, family), repair, |applied, each| {
                let mut elements = Vec::new();
                for (owner, service) in services.iter().enumerate() {
                    let ports = applied.ports(service).iter();
                    for port in ports.filter(|port| port.family() == family) {
                        port.append_elements(map, &comment(service, port), &mut elements);
                    }
                    for element in elements.drain(..) {
                        if matches!(map, Map::ClusterMembers | Map::LocalMembers) {
                            members.insert(element.key);
                        }
                        each(element, owner as u32);
                    }
                }
            })?;
        }
        Ok(members)
    }

    /// Compares the elements of a map with those that `desired` passes on. Returns the number of desired elements.
    ///
    /// If elements are missing, the map is read twice: while the kernel resizes its hash table, a dump may omit
    /// elements.
    pub(super) fn compare_elements(
        &mut self,
        map_id: MapId,
        repair: &mut Repair,
        mut desired: impl FnMut(&AppliedServices, &mut dyn FnMut(MapElement, u32)),
    ) -> Result<usize, DataplaneError> {
        let (matches_kernel, count) = self.matches_kernel(map_id, &mut desired)?;
        if matches_kernel {
            return Ok(count);
        }
        for is_last in [false, true] {
            let mut found = KernelElements::read(&mut self.nftables, &self.table, map_id)?;
            let mut changes: Vec<(u32, ElementDifference)> = Vec::new();
            let mut is_missing = false;
            desired(&self.applied, &mut |element, owner| {
                let mut difference = ElementDifference::default();
                found.compare(element, &mut difference.removed, &mut difference.added);
                is_missing |= difference.removed.len() < difference.added.len();
                if !difference.added.is_empty() {
                    changes.push((owner, difference));
                }
            });
            if is_last || !is_missing {
                repair.add_changes(changes, found);
                break;
            }
        }
        Ok(count)
    }

    /// Returns true if a map has exactly the desired elements, and the number of these. A comparison of digests is
    /// faster than a search for the differences.
    fn matches_kernel(
        &mut self,
        map_id: MapId,
        desired: &mut impl FnMut(&AppliedServices, &mut dyn FnMut(MapElement, u32)),
    ) -> Result<(bool, usize), DataplaneError> {
        let state = RandomState::new();
        let found = Digest::read(&mut self.nftables, &self.table, map_id, &state)?;
        let mut digest = Digest::default();
        desired(&self.applied, &mut |element, _| {
            digest.add(&element.as_netlink(), &state)
        });
        Ok((digest == found, digest.count))
    }

    /// Deletes stale affinities and chains. A failure is harmless, because the table already carries traffic as
    /// planned.
    fn clean_up(&mut self, repair: &Repair) {
        let mut batch = Batch::new(&self.table, None);
        write_elements(&mut batch, Change::Delete, &repair.affinities, NO_OWNER);
        if let Err(error) = self.commit(batch) {
            tracing::debug!(%error, "stale affinities not deleted before they expire");
        }
        if let Err(error) = self.delete_chains(&repair.stale_chains) {
            tracing::debug!(%error, "stale chains not deleted before the next repair");
        }
    }
}

impl Repair {
    /// Returns true if no chain has to change.
    pub(super) fn chains_match(&self) -> bool {
        self.chains.is_empty() && self.stale_chains.is_empty()
    }

    /// Collects the changes that turn `found` chains into the desired ones.
    pub(super) fn compare_chains(
        &mut self,
        desired: Vec<(Chain, Vec<Rule>)>,
        mut found: HashMap<String, Vec<Rule>>,
    ) {
        for (chain, rules) in desired {
            match found.remove(&chain.name) {
                Some(found) if found == rules => continue,
                Some(_) => self.flushed.push(chain.name.clone()),
                None => {}
            }
            self.count += 1;
            self.chains.push((chain, rules));
        }
        self.stale_chains = found.into_keys().collect();
        // Names of chains that jump to others contain a ".", because they list three actions. They are deleted first.
        self.stale_chains.sort_by_key(|chain| !chain.contains('.'));
    }

    /// Adds changed elements, and found elements that are not desired.
    fn add_changes(&mut self, changes: Vec<(u32, ElementDifference)>, found: KernelElements) {
        for (owner, change) in changes {
            self.count += change.added.len();
            let difference = self.differences.entry(owner).or_default();
            difference.removed.extend(change.removed);
            difference.added.extend(change.added);
        }
        let removed = &mut self.differences.entry(NO_OWNER).or_default().removed;
        let before = removed.len();
        removed.extend(found.stale());
        self.count += removed.len() - before;
    }

    /// Returns the elements to remove and to add, by owner.
    pub(super) fn differences(&self) -> impl Iterator<Item = (&[MapElement], &[MapElement])> {
        let differences = self.differences.values();
        differences.map(|difference| (difference.removed.as_slice(), difference.added.as_slice()))
    }

    /// Subtracts elements that are known to be unused.
    fn discount_unused(&mut self, unused: usize) {
        self.count = self.count.saturating_sub(unused);
    }

    /// Builds the kernel transaction.
    pub(super) fn batch(&self, table: &str, generation: Option<Generation>) -> Batch {
        let mut batch = Batch::new(table, generation);
        for chain in &self.flushed {
            batch.flush_chain(chain, NO_OWNER);
        }
        write_chains(&mut batch, &self.chains);
        for (owner, difference) in &self.differences {
            write_elements(&mut batch, Change::Delete, &difference.removed, *owner);
        }
        for (owner, difference) in &self.differences {
            write_elements(&mut batch, Change::Add, &difference.added, *owner);
        }
        batch
    }
}

fn refused(error: &CommitError, services: &[ObjectKey]) -> Option<Vec<SkippedService>> {
    let CommitError::Refused { refusals } = error else {
        return None;
    };
    let skipped = |refusal: &Refusal| {
        Some(SkippedService {
            service: services.get(refusal.owner? as usize)?.clone(),
            reason: refusal.to_string(),
        })
    };
    let mut skipped: Vec<SkippedService> = refusals.iter().map(skipped).collect::<Option<_>>()?;
    skipped.dedup_by(|a, b| a.service == b.service);
    Some(skipped)
}
