//! Reading back single maps: those that were touched in many places, or whose elements do not say whose they are; and
//! all of them in turn after others have written, should the watch ever tell less than it seems to.

use plan::Plan;

use crate::DataplaneError;

use super::item::{Item, Place};
use super::layout::Map;
use super::port::Shared;
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
        let wanted: Vec<Item> = match place {
            Place::Map(map, family) if Map::OF_PORTS.contains(&map) => {
                return self.compare_elements(place, mending, |in_force, each| {
                    in_force.each_item(map, family, &mut |item| each(item, super::NOBODY));
                });
            }
            _ if place.is_filled_by_rules() => return Ok(0),
            Place::Treatments => self
                .codes
                .in_force()
                .filter_map(|code| self.codes.item(code))
                .collect(),
            Place::Masqueraded => skeleton::masqueraded(),
            Place::Map(..) => {
                let shared = self.in_force.shared().map(Shared::item);
                let all = self.ranges.iter().cloned().chain(shared);
                all.filter(|item| item.place == place).collect()
            }
        };
        self.compare_place(place, wanted, mending)
    }
}
