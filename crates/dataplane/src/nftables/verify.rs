//! Verification of maps against the kernel.
//! Single maps are read back if many of their keys changed, or if their keys do not identify an owner. After an
//! external transaction, all maps are verified one after the other, in case the monitor missed a change.

use std::hash::RandomState;

use plan::Plan;

use crate::DataplaneError;

use super::layout::Map;
use super::map_element::{MapElement, MapId};
use super::port::SharedElement;
use super::snapshot::{self, Digest, TableState};
use super::synchronize::Repair;
use super::{NftablesDataplane, base_ruleset, is_drift};

/// Elements after which a verification pass stops until the next repair. A map is compared as a whole, so the largest
/// one takes a pass of its own.
const PASS_ELEMENTS: usize = 8_192;

impl NftablesDataplane {
    /// Schedules the verification of all maps after an external transaction.
    pub(super) fn require_verification(&mut self) {
        self.unverified_maps = MapId::all().count();
    }

    /// Verifies all chains and the next maps, and repairs them. Returns the number of elements and chains that
    /// differed; zero if everything was verified since the last external transaction.
    pub(super) fn verify_next(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        self.verify_within(plan, PASS_ELEMENTS)
    }

    /// Verifies as [`Self::verify_next`] does, and starts no further map after `pass_elements` elements.
    pub(super) fn verify_within(
        &mut self,
        plan: &Plan,
        pass_elements: usize,
    ) -> Result<usize, DataplaneError> {
        if self.unverified_maps == 0 {
            return Ok(0);
        }
        let mut differing = self.repair_chains()?;
        let mut elements = 0;
        while self.unverified_maps > 0 && elements < pass_elements {
            let Some(map_id) = MapId::all().cycle().nth(self.next_map) else {
                break;
            };
            let (compared, mended) = self.verify(plan, map_id)?;
            self.next_map = (self.next_map + 1) % MapId::all().count();
            self.unverified_maps = self.unverified_maps.saturating_sub(1);
            elements += compared;
            differing += mended;
        }
        Ok(differing)
    }

    /// Compares a map with its desired elements and repairs it. Returns the number of compared elements and of those
    /// that differed.
    pub(super) fn verify(&mut self, plan: &Plan, map_id: MapId) -> Result<(usize, usize), DataplaneError> {
        let mut repair = Repair::default();
        let compared = self.compare_applied(map_id, &mut repair)?;
        match self.commit(repair.batch(&self.table, None)) {
            Ok(()) => Ok((compared, repair.count)),
            Err(error) if is_drift(&error) => {
                // The table changes concurrently.
                let applied = self.synchronize(plan)?;
                Ok((compared, applied.elements))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn compare_applied(&mut self, map_id: MapId, repair: &mut Repair) -> Result<usize, DataplaneError> {
        if let MapId::Map(map, family) = map_id
            && Map::OF_PORTS.contains(&map)
        {
            return self.compare_elements(map_id, repair, |applied, each| {
                applied.each_element(map, family, &mut |element| each(element, super::NO_OWNER));
            });
        }
        if map_id.is_dynamic() {
            return Ok(0);
        }
        let mut desired = Vec::new();
        self.each_applied(map_id, &mut |element| desired.push(element));
        self.compare_map(map_id, desired, repair)
    }

    /// Reads the whole table and repairs it. Returns the number of elements and chains that differed.
    pub(super) fn read_back(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        if self.is_in_sync {
            self.delete_unused();
            let state = self.nftables.generation()?;
            if self.is_table_as_written()? {
                self.ledger.start(state);
                self.unverified_maps = 0;
                return Ok(0);
            }
        }
        self.synchronize(plan).map(|applied| applied.elements)
    }

    /// Returns true if the whole table is as it was last written. This check costs far less than a synchronization,
    /// which follows if it fails.
    fn is_table_as_written(&mut self) -> Result<bool, DataplaneError> {
        if snapshot::table_state(&mut self.nftables, &self.table, &self.chains)? != TableState::Own {
            return Ok(false);
        }
        let mut repair = Repair::default();
        repair.compare_chains(
            self.desired_chains(),
            snapshot::read_chains(&mut self.nftables, &self.table)?,
        );
        if !repair.chains_match() {
            return Ok(false);
        }
        let state = RandomState::new();
        for map_id in MapId::all().filter(|map_id| !map_id.is_dynamic()) {
            let found = Digest::read(&mut self.nftables, &self.table, map_id, &state)?;
            let mut desired = Digest::default();
            self.each_applied(map_id, &mut |element| desired.add(&element.as_netlink(), &state));
            if desired != found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes each element that was written to a map to `each`. Elements that packets add are not included.
    fn each_applied(&self, map_id: MapId, each: &mut dyn FnMut(MapElement)) {
        match map_id {
            MapId::Map(map, family) if Map::OF_PORTS.contains(&map) => {
                self.applied.each_element(map, family, each);
            }
            MapId::Verdicts => {
                let elements = self.codes.applied().filter_map(|code| self.codes.element(code));
                elements.for_each(each);
            }
            MapId::Masqueraded => base_ruleset::masqueraded().into_iter().for_each(each),
            MapId::Map(..) => {
                let shared = self.applied.shared().map(SharedElement::element);
                let all = self.ranges.iter().cloned().chain(shared);
                all.filter(|element| element.map_id == map_id).for_each(each);
            }
        }
    }
}
