//! Reading back single maps: those that were touched in many places, or whose elements do not say whose they are; and
//! all of them in turn after others have written, should the watch ever tell less than it seems to.

use std::hash::RandomState;

use plan::Plan;

use crate::DataplaneError;

use super::item::{Item, Place};
use super::layout::Map;
use super::port::Shared;
use super::snapshot::{self, Digest, Found};
use super::synchronize::Mending;
use super::{NftablesDataplane, is_drift, skeleton};

/// Elements after which the rest of the maps waits for the next turn. A map is compared whole, so that the largest
/// one takes a turn of its own.
const TURN_ELEMENTS: usize = 8_192;

impl NftablesDataplane {
    /// Takes note that others have written something: all is to be compared in turn.
    pub(super) fn distrust(&mut self) {
        self.unverified = Place::all().count();
    }

    /// Compares all chains, and the maps whose turn it is, with what should be in force, and mends them; how many
    /// elements and chains differed. Nothing, when all were compared since others last wrote.
    pub(super) fn verify_some(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        self.verify_within(plan, TURN_ELEMENTS)
    }

    /// The same; no further map is begun after so many elements.
    pub(super) fn verify_within(
        &mut self,
        plan: &Plan,
        turn_elements: usize,
    ) -> Result<usize, DataplaneError> {
        if self.unverified == 0 {
            return Ok(0);
        }
        let mut differing = self.mend_chains()?;
        let mut elements = 0;
        while self.unverified > 0 && elements < turn_elements {
            let Some(place) = Place::all().cycle().nth(self.turn) else {
                break;
            };
            let (compared, mended) = self.verify(plan, place)?;
            self.turn = (self.turn + 1) % Place::all().count();
            self.unverified = self.unverified.saturating_sub(1);
            elements += compared;
            differing += mended;
        }
        Ok(differing)
    }

    /// Compares a place with what should be in it, and mends it: how many elements were compared, and how many differed.
    pub(super) fn verify(&mut self, plan: &Plan, place: Place) -> Result<(usize, usize), DataplaneError> {
        let mut mending = Mending::default();
        let compared = self.compare_in_force(place, &mut mending)?;
        match self.commit(mending.batch(&self.table, None)) {
            Ok(()) => Ok((compared, mending.count)),
            Err(error) if is_drift(&error) => {
                // It changes under our hands.
                let applied = self.synchronize(plan)?;
                Ok((compared, applied.elements))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn compare_in_force(&mut self, place: Place, mending: &mut Mending) -> Result<usize, DataplaneError> {
        if let Place::Map(map, family) = place
            && Map::OF_PORTS.contains(&map)
        {
            return self.compare_elements(place, mending, |in_force, each| {
                in_force.each_item(map, family, &mut |item| each(item, super::NOBODY));
            });
        }
        if place.is_filled_by_rules() {
            return Ok(0);
        }
        let mut wanted = Vec::new();
        self.each_in_force(place, &mut |item| wanted.push(item));
        self.compare_place(place, wanted, mending)
    }

    /// Reads everything back, and mends what is not as it should be; how many elements and chains were not.
    pub(super) fn read_back(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        if self.is_known {
            self.sweep();
            let state = self.nftables.generation()?;
            if self.is_untouched()? {
                self.ledger.start(state);
                self.unverified = 0;
                return Ok(0);
            }
        }
        self.synchronize(plan).map(|applied| applied.elements)
    }

    /// Whether the table is in all its parts as it was left. That costs far less than bringing the plan into force by
    /// differences, which has to be done if it is not.
    fn is_untouched(&mut self) -> Result<bool, DataplaneError> {
        if snapshot::find(&mut self.nftables, &self.table, &self.chains)? != Found::Ours {
            return Ok(false);
        }
        let mut mending = Mending::default();
        mending.compare_chains(
            self.wanted_chains(),
            snapshot::read_chains(&mut self.nftables, &self.table)?,
        );
        if !mending.leaves_chains() {
            return Ok(false);
        }
        let state = RandomState::new();
        for place in Place::all().filter(|place| !place.is_filled_by_rules()) {
            let found = Digest::read(&mut self.nftables, &self.table, place, &state)?;
            let mut wanted = Digest::default();
            self.each_in_force(place, &mut |item| wanted.add(&item.element(), &state));
            if wanted != found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands over what should be in a place, as it was written, but for what packets put there.
    fn each_in_force(&self, place: Place, each: &mut dyn FnMut(Item)) {
        match place {
            Place::Map(map, family) if Map::OF_PORTS.contains(&map) => {
                self.in_force.each_item(map, family, each);
            }
            Place::Treatments => {
                let items = self.codes.in_force().filter_map(|code| self.codes.item(code));
                items.for_each(each);
            }
            Place::Masqueraded => skeleton::masqueraded().into_iter().for_each(each),
            Place::Map(..) => {
                let shared = self.in_force.shared().map(Shared::item);
                let all = self.ranges.iter().cloned().chain(shared);
                all.filter(|item| item.place == place).for_each(each);
            }
        }
    }
}
