//! Bringing the table to what is wanted whatever it is: the first time, taking over what an earlier process
//! left, and mending what others did to it. Only differences are written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::RandomState;

use api::object::ObjectKey;
use netlink::nftables::{Batch, Chain, Change, CommitError, Generation, Refusal, Rule};
use plan::{Family, Plan};

use crate::{Applied, DataplaneError, Skipped};

use super::bytes::Bytes;
use super::draft::{NOBODY, write_chains, write_items};
use super::in_force::{Difference, InForce, comment};
use super::item::{Item, Place};
use super::layout::{self, FAMILIES, Map};
use super::port::{Port, Shared};
use super::snapshot::{self, Digest, Elements, FormerEndpoints, Found};
use super::stand_ins::written;
use super::{NftablesDataplane, ROUNDS_MAX, SERVICES_PER_TRANSACTION, is_drift, ranges, skeleton};

/// How often the table is read anew because another program changed the ruleset meanwhile, or it turned out to
/// be otherwise than it was read. After that it is written without the kernel's check that nothing has changed.
const ATTEMPTS_MAX: usize = 4;

/// What is to be done to the table.
#[derive(Default)]
pub(super) struct Mending {
    /// Chains that are missing, or have other rules than they should.
    pub(super) chains: Vec<(Chain, Vec<Rule>)>,
    /// Those of them that are there.
    pub(super) flushed: Vec<String>,
    /// Elements with the number of the Service that they belong to.
    differences: BTreeMap<u32, Difference>,
    /// Chains that nothing leads to.
    pub(super) stale_chains: Vec<String>,
    affinities: Vec<Item>,
    /// How many elements and chains are not as they should be.
    pub(super) count: usize,
}

impl NftablesDataplane {
    /// Brings the whole plan into force, by differences to what is there.
    pub(super) fn synchronize(&mut self, plan: &Plan) -> Result<Applied, DataplaneError> {
        let chains = skeleton::chains(plan.settings());
        self.codes.set_pods(&plan.settings().pods);
        match snapshot::find(&mut self.nftables, &self.table, &chains)? {
            Found::Nothing => self.load(plan, chains, false),
            Found::Other => {
                tracing::warn!(
                    table = self.table,
                    "the table is of another layout, or damaged: made anew"
                );
                self.load(plan, chains, true)
            }
            Found::Ours => self.mend(plan, chains),
        }
    }

    /// Makes the table and loads all Services.
    fn load(
        &mut self,
        plan: &Plan,
        chains: Vec<(Chain, Vec<Rule>)>,
        is_there: bool,
    ) -> Result<Applied, DataplaneError> {
        self.is_known = false;
        self.ledger.start(self.nftables.generation()?);
        self.in_force = InForce::default();
        self.codes = super::Codes::new(plan.settings().pods.clone());
        self.ranges = ranges::items(plan.settings());
        let table = skeleton::table(&self.table);
        let mut batch = Batch::new(&self.table, None);
        if is_there {
            batch.table(Change::Delete, &table, NOBODY);
        }
        batch.table(Change::Add, &table, NOBODY);
        for set in layout::sets() {
            batch.set(Change::Add, &set, NOBODY);
        }
        write_chains(&mut batch, &chains);
        write_items(&mut batch, Change::Add, &skeleton::masqueraded(), NOBODY);
        write_items(&mut batch, Change::Add, &self.ranges, NOBODY);
        self.commit(batch)?;
        self.chains = chains;
        let services: Vec<ObjectKey> = plan.services().cloned().collect();
        let mut total = Applied::default();
        for some in services.chunks(SERVICES_PER_TRANSACTION) {
            let applied = self.apply_services(plan, some)?;
            total.elements += applied.elements;
            total.skipped.extend(applied.skipped);
        }
        self.is_known = true;
        Ok(total)
    }

    /// Writes the differences between the table and what is wanted.
    fn mend(&mut self, plan: &Plan, chains: Vec<(Chain, Vec<Rule>)>) -> Result<Applied, DataplaneError> {
        let mut skipped: Vec<Skipped> = Vec::new();
        let (mut attempts, mut rounds) = (0, 0);
        loop {
            let generation = self.nftables.generation()?;
            let services = self.replan(plan, &skipped)?;
            let codes = self.used_codes();
            let mending = self.compare(plan, &chains, &services, &codes)?;
            let expected = (attempts < ATTEMPTS_MAX).then_some(generation);
            self.ledger.start(generation);
            let error = match self.commit(mending.batch(&self.table, expected)) {
                Ok(()) => {
                    self.codes.set_in_force(&codes);
                    self.chains = chains;
                    self.ranges = ranges::items(plan.settings());
                    self.is_known = true;
                    self.unverified = 0;
                    self.finish(&mending);
                    return Ok(Applied {
                        elements: mending.count,
                        skipped,
                    });
                }
                Err(error) if is_drift(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    continue;
                }
                Err(error) => error,
            };
            self.is_known = false;
            rounds += 1;
            match refused(&error, &services) {
                Some(refused) if rounds < ROUNDS_MAX => skipped.extend(refused),
                _ => return Err(error.into()),
            }
        }
    }

    /// Decides the elements of all Services, endpoints at the indexes where they are in the kernel.
    /// The Services by number.
    fn replan(&mut self, plan: &Plan, skipped: &[Skipped]) -> Result<Vec<ObjectKey>, DataplaneError> {
        let former = if self.is_known {
            None
        } else {
            snapshot::read_codes(&mut self.nftables, &self.table, &mut self.codes)?;
            Some(FormerEndpoints::read(&mut self.nftables, &self.table)?)
        };
        let mut in_force = InForce::default();
        let (mut own, mut common) = (Difference::default(), Difference::default());
        let mut services = Vec::new();
        for service in plan.services() {
            if skipped.iter().any(|skipped| skipped.service == *service) {
                continue;
            }
            let codes = &mut self.codes;
            let ports: Box<[Port]> = match &former {
                None => self
                    .in_force
                    .planned(plan, service, self.stand_ins.as_ref(), codes),
                Some(former) => plan
                    .ports_of(service)
                    .map(|port| {
                        Port::new(
                            &written(self.stand_ins.as_ref(), port),
                            |key, set| former.of(key, set),
                            |treatment| codes.code(treatment),
                        )
                    })
                    .collect(),
            };
            in_force.replace(service, ports, &mut own, &mut common);
            own.coming.clear();
            common.coming.clear();
            services.push(service.clone());
        }
        self.in_force = in_force;
        Ok(services)
    }

    fn used_codes(&self) -> Vec<u32> {
        let used: HashSet<u32> = self
            .in_force
            .services()
            .flat_map(|(_, ports)| ports.iter().flat_map(Port::codes))
            .collect();
        used.into_iter().collect()
    }

    fn compare(
        &mut self,
        plan: &Plan,
        chains: &[(Chain, Vec<Rule>)],
        services: &[ObjectKey],
        codes: &[u32],
    ) -> Result<Mending, DataplaneError> {
        let mut mending = Mending::default();
        let mut wanted_chains = chains.to_vec();
        wanted_chains.extend(self.codes.chains_of(codes.iter()));
        mending.compare_chains(
            wanted_chains,
            snapshot::read_chains(&mut self.nftables, &self.table)?,
        );

        let treatments = codes.iter().filter_map(|code| self.codes.item(*code)).collect();
        self.compare_place(Place::Treatments, treatments, &mut mending)?;
        mending.discount(self.codes.in_force().filter(|code| !codes.contains(code)).count());
        self.compare_place(Place::Masqueraded, skeleton::masqueraded(), &mut mending)?;
        let mut common = ranges::items(plan.settings());
        common.extend(self.in_force.shared().map(Shared::item));
        for family in FAMILIES {
            for map in [
                Map::Pods,
                Map::ServiceCidrs,
                Map::NodePortAddresses,
                Map::ClusterIps,
                Map::Hairpin,
            ] {
                let place = Place::Map(map, family);
                let wanted = common.extract_if(.., |item| item.place == place).collect();
                self.compare_place(place, wanted, &mut mending)?;
            }
            let members = self.compare_ports(family, services, &mut mending)?;
            let affinities = snapshot::stale_affinities(&mut self.nftables, &self.table, family, |member| {
                !members.contains(member)
            })?;
            mending.affinities.extend(affinities);
        }
        Ok(mending)
    }

    /// Compares elements that belong to no Service.
    pub(super) fn compare_place(
        &mut self,
        place: Place,
        wanted: Vec<Item>,
        mending: &mut Mending,
    ) -> Result<usize, DataplaneError> {
        self.compare_elements(place, mending, |_, each| {
            for item in &wanted {
                each(item.clone(), NOBODY);
            }
        })
    }

    /// Compares the elements of all Services of a family; the endpoints that clients may be kept at.
    fn compare_ports(
        &mut self,
        family: Family,
        services: &[ObjectKey],
        mending: &mut Mending,
    ) -> Result<HashSet<Bytes>, DataplaneError> {
        let mut members = HashSet::new();
        for map in Map::OF_PORTS {
            self.compare_elements(Place::Map(map, family), mending, |in_force, each| {
                let mut items = Vec::new();
                for (owner, service) in services.iter().enumerate() {
                    let ports = in_force.ports(service).iter();
                    for port in ports.filter(|port| port.family() == family) {
                        port.items(map, &comment(service, port), &mut items);
                    }
                    for item in items.drain(..) {
                        if matches!(map, Map::ClusterMembers | Map::LocalMembers) {
                            members.insert(item.key);
                        }
                        each(item, owner as u32);
                    }
                }
            })?;
        }
        Ok(members)
    }

    /// Compares the elements of one place with those that `wanted` hands over; how many these are. If some are
    /// missing, it looks twice: while the kernel enlarges a map's hash table, a list of it leaves elements out.
    pub(super) fn compare_elements(
        &mut self,
        place: Place,
        mending: &mut Mending,
        mut wanted: impl FnMut(&InForce, &mut dyn FnMut(Item, u32)),
    ) -> Result<usize, DataplaneError> {
        let (is_as_wanted, count) = self.is_as_wanted(place, &mut wanted)?;
        if is_as_wanted {
            return Ok(count);
        }
        for is_last in [false, true] {
            let mut found = Elements::read(&mut self.nftables, &self.table, place)?;
            let mut changes: Vec<(u32, Difference)> = Vec::new();
            let mut is_missing = false;
            wanted(&self.in_force, &mut |item, owner| {
                let mut difference = Difference::default();
                found.compare(item, &mut difference.going, &mut difference.coming);
                is_missing |= difference.going.len() < difference.coming.len();
                if !difference.coming.is_empty() {
                    changes.push((owner, difference));
                }
            });
            if is_last || !is_missing {
                mending.take(changes, found);
                break;
            }
        }
        Ok(count)
    }

    /// Whether a place has the wanted elements and no others, and how many are wanted. Quicker than finding out which: by hashes only, of
    /// elements with all that they hold.
    fn is_as_wanted(
        &mut self,
        place: Place,
        wanted: &mut impl FnMut(&InForce, &mut dyn FnMut(Item, u32)),
    ) -> Result<(bool, usize), DataplaneError> {
        let state = RandomState::new();
        let found = Digest::read(&mut self.nftables, &self.table, place, &state)?;
        let mut digest = Digest::default();
        wanted(&self.in_force, &mut |item, _| digest.add(&item.element(), &state));
        Ok((digest == found, digest.count))
    }

    /// What may fail without harm, once the table carries traffic as it should.
    fn finish(&mut self, mending: &Mending) {
        let mut batch = Batch::new(&self.table, None);
        write_items(&mut batch, Change::Delete, &mending.affinities, NOBODY);
        if let Err(error) = self.commit(batch) {
            tracing::debug!(%error, "affinities to endpoints that have left stay until they expire");
        }
        if let Err(error) = self.delete_chains(&mending.stale_chains) {
            tracing::debug!(%error, "chains that nothing leads to stay until the next repair");
        }
    }
}

impl Mending {
    /// Whether there is nothing to be done to chains.
    pub(super) fn leaves_chains(&self) -> bool {
        self.chains.is_empty() && self.stale_chains.is_empty()
    }

    /// Takes what has to be done to chains so that they are the wanted ones.
    pub(super) fn compare_chains(
        &mut self,
        wanted: Vec<(Chain, Vec<Rule>)>,
        mut found: HashMap<String, Vec<Rule>>,
    ) {
        for (chain, rules) in wanted {
            match found.remove(&chain.name) {
                Some(found) if found == rules => continue,
                Some(_) => self.flushed.push(chain.name.clone()),
                None => {}
            }
            self.count += 1;
            self.chains.push((chain, rules));
        }
        self.stale_chains = found.into_keys().collect();
        // A chain that leads to others has a "." in its name, as it says three outcomes.
        self.stale_chains.sort_by_key(|chain| !chain.contains('.'));
    }

    /// Takes the changes of elements, and those found that were not wanted.
    fn take(&mut self, changes: Vec<(u32, Difference)>, found: Elements) {
        for (owner, change) in changes {
            self.count += change.coming.len();
            let difference = self.differences.entry(owner).or_default();
            difference.going.extend(change.going);
            difference.coming.extend(change.coming);
        }
        let going = &mut self.differences.entry(NOBODY).or_default().going;
        let before = going.len();
        going.extend(found.stale());
        self.count += going.len() - before;
    }

    /// Does not count elements that are known to be unused.
    fn discount(&mut self, unused: usize) {
        self.count = self.count.saturating_sub(unused);
    }

    /// The transaction.
    pub(super) fn batch(&self, table: &str, generation: Option<Generation>) -> Batch {
        let mut batch = Batch::new(table, generation);
        for chain in &self.flushed {
            batch.flush_chain(chain, NOBODY);
        }
        write_chains(&mut batch, &self.chains);
        for (owner, difference) in &self.differences {
            write_items(&mut batch, Change::Delete, &difference.going, *owner);
        }
        for (owner, difference) in &self.differences {
            write_items(&mut batch, Change::Add, &difference.coming, *owner);
        }
        batch
    }
}

fn refused(error: &CommitError, services: &[ObjectKey]) -> Option<Vec<Skipped>> {
    let CommitError::Refused { refusals } = error else {
        return None;
    };
    let skipped = |refusal: &Refusal| {
        Some(Skipped {
            service: services.get(refusal.owner? as usize)?.clone(),
            reason: refusal.to_string(),
        })
    };
    let mut skipped: Vec<Skipped> = refusals.iter().map(skipped).collect::<Option<_>>()?;
    skipped.dedup_by(|a, b| a.service == b.service);
    Some(skipped)
}
