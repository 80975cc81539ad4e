//! Mending just what others touched, whatever else there is: what is wanted for a key is known without reading.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::object::Protocol;
use netlink::nftables::{Batch, Chain, Change, Rule, Touched};
use plan::{Family, Plan};

use crate::DataplaneError;

use super::draft::{NOBODY, write_chains, write_items};
use super::in_force::comment;
use super::item::{Item, Place};
use super::layout::{Map, address_bytes};
use super::port::{Port, Shared};
use super::synchronize::Mending;
use super::{Bytes, NftablesDataplane, skeleton, snapshot};

/// Keys of one map that are mended one by one; beyond that, the map is read back.
const KEYS_MAX: usize = 4_096;

impl NftablesDataplane {
    /// Mends what was touched; how many elements and chains were looked at.
    pub(super) fn mend_touched(&mut self, plan: &Plan, touched: &[Touched]) -> Result<usize, DataplaneError> {
        let count = match is_unclear(touched) || !self.is_known {
            true => self.read_back(plan)?,
            false => self.mend_told(plan, touched)?,
        };
        for touched in touched {
            if let Touched::Transaction(state) = touched {
                self.ledger.note_other(*state);
                self.distrust();
            }
        }
        Ok(count)
    }

    fn mend_told(&mut self, plan: &Plan, touched: &[Touched]) -> Result<usize, DataplaneError> {
        let mut count = 0;
        if touched.contains(&Touched::Rules) {
            count += self.mend_chains()?;
        }
        for (place, keys) in keys_by_place(touched) {
            if keys.len() > KEYS_MAX || is_read_back(place) {
                let (_, differing) = self.verify(plan, place)?;
                count += differing;
                continue;
            }
            for key in keys {
                if !self.mend_key(plan, place, key) {
                    return self.synchronize(plan).map(|applied| applied.elements);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// Compares all chains with what should be in force, and mends them; how many differed.
    pub(super) fn mend_chains(&mut self) -> Result<usize, DataplaneError> {
        let wanted = self.wanted_chains();
        let mut mending = Mending::default();
        mending.compare_chains(wanted, snapshot::read_chains(&mut self.nftables, &self.table)?);
        let mut batch = Batch::new(&self.table, None);
        for chain in &mending.flushed {
            batch.flush_chain(chain, NOBODY);
        }
        write_chains(&mut batch, &mending.chains);
        self.commit(batch)?;
        if let Err(error) = self.delete_chains(&mending.stale_chains) {
            tracing::debug!(%error, "chains that nothing leads to stay until the next repair");
        }
        Ok(mending.chains.len() + mending.stale_chains.len())
    }

    /// All chains that should be there.
    pub(super) fn wanted_chains(&self) -> Vec<(Chain, Vec<Rule>)> {
        let mut wanted = self.chains.clone();
        let codes: Vec<u32> = self.codes.in_force().collect();
        wanted.extend(self.codes.chains_of(codes.iter()));
        wanted
    }

    /// Puts an element back, or takes one away that is not ours. Whether that could be done.
    fn mend_key(&mut self, plan: &Plan, place: Place, key: Bytes) -> bool {
        let wanted = self.wanted(plan, place, &key);
        let gone = Item::key(place, key);
        let attempts: [&[(Change, &Item)]; 2] = match &wanted {
            Some(item) => [
                &[(Change::Add, item)],
                &[(Change::Delete, &gone), (Change::Add, item)],
            ],
            None => [&[(Change::Delete, &gone)], &[]],
        };
        for attempt in attempts {
            let mut batch = Batch::new(&self.table, None);
            for (change, item) in attempt {
                write_items(&mut batch, *change, std::slice::from_ref(*item), NOBODY);
            }
            match self.commit(batch) {
                Ok(()) => return true,
                Err(error) => tracing::debug!(%error, "an element is not as it was told"),
            }
        }
        // What is not wanted and could not be deleted is gone by now, most often.
        wanted.is_none()
    }

    /// What is to be in force for a key.
    fn wanted(&self, plan: &Plan, place: Place, key: &Bytes) -> Option<Item> {
        let of_key = |item: &Item| item.place == place && item.key == *key;
        let (map, family) = match place {
            Place::Treatments => {
                let code = u32::from_ne_bytes(key.as_slice().try_into().ok()?);
                return self.codes.item(code).filter(|_| self.codes.is_in_force(code));
            }
            Place::Masqueraded => return skeleton::masqueraded().into_iter().find(of_key),
            Place::Map(map, family) => (map, family),
        };
        match map {
            Map::ClusterIps | Map::Hairpin => {
                let (address, _) = split_address(key.as_slice(), family)?;
                let shared = match map {
                    Map::ClusterIps => Shared::ClusterIp(address),
                    _ => Shared::LocalEndpoint(address),
                };
                Some(shared.item()).filter(|item| self.in_force.has_shared(shared) && of_key(item))
            }
            Map::NodePortAddresses => self.ranges.iter().find(|item| of_key(item)).cloned(),
            _ => {
                let (service, ports) = self.owner(plan, map, family, key)?;
                let mut items = Vec::new();
                for port in ports.iter().filter(|port| port.family() == family) {
                    port.items(map, &comment(&service, port), &mut items);
                }
                items.into_iter().find(of_key)
            }
        }
    }

    /// The Service that an element of that key belongs to, by the frontend that the key begins with.
    fn owner(
        &self,
        plan: &Plan,
        map: Map,
        family: Family,
        key: &Bytes,
    ) -> Option<(api::object::ObjectKey, &[Port])> {
        let (address, rest) = match map {
            Map::NodePorts | Map::ServiceOfNodePort => (None, key.as_slice()),
            _ => {
                let (address, rest) = split_address(key.as_slice(), family)?;
                (Some(address).filter(|address| !address.is_unspecified()), rest)
            }
        };
        let protocol = match i32::from(*rest.first()?) {
            libc::IPPROTO_TCP => Protocol::Tcp,
            libc::IPPROTO_UDP => Protocol::Udp,
            libc::IPPROTO_SCTP => Protocol::Sctp,
            _ => return None,
        };
        let port = u16::from_be_bytes(*rest.get(4..)?.first_chunk()?);
        let (plan, _) = plan.frontend(family, address, protocol, port)?;
        let service = plan.key.service.clone();
        let ports = self.in_force.ports(&service);
        Some((service, ports))
    }
}

/// Ranges have elements whose keys do not say whose they are.
fn is_read_back(place: Place) -> bool {
    matches!(
        place,
        Place::Map(Map::SourceRanges | Map::ServiceCidrs | Map::Pods, _)
    )
}

/// Whether it is not known what was touched. Sets that are none of ours do no harm.
fn is_unclear(touched: &[Touched]) -> bool {
    touched.iter().any(|touched| match touched {
        Touched::Everything => true,
        Touched::Set { set } => Place::named(set).is_some(),
        Touched::Elements { .. } | Touched::Rules | Touched::Transaction(_) => false,
    })
}

/// The touched keys of each map of ours, each once.
fn keys_by_place(touched: &[Touched]) -> BTreeMap<Place, BTreeSet<Bytes>> {
    let mut all: BTreeMap<Place, BTreeSet<Bytes>> = BTreeMap::new();
    for touched in touched {
        if let Touched::Elements { set, keys } = touched
            && let Some(place) = Place::named(set).filter(|place| !place.is_filled_by_rules())
        {
            let keys = keys.iter().filter_map(|key| Bytes::from_slice(key));
            all.entry(place).or_default().extend(keys);
        }
    }
    all
}

fn split_address(key: &[u8], family: Family) -> Option<(IpAddr, &[u8])> {
    let (address, rest) = key.split_at_checked(address_bytes(family))?;
    let address = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
    };
    Some((address, rest))
}
