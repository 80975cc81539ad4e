//! Repair of reported external changes, at a cost that depends on the changes only. The desired element of a key
//! follows from the plan, so the repair reads no rules from the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::object::Protocol;
use netlink::nftables::{Batch, Chain, Change, ExternalChange, Rule};
use plan::{Family, Plan};

use crate::DataplaneError;

use super::applied::comment;
use super::layout::{Map, address_bytes};
use super::map_element::{MapElement, MapId};
use super::port::{Port, RANGE_BIT, SharedElement};
use super::synchronize::Repair;
use super::transaction::{NO_OWNER, write_chains, write_elements};
use super::{MapBytes, NftablesDataplane, base_ruleset, snapshot};

/// Maximum number of keys of one map that are repaired one by one; a map with more changed keys is read and compared.
const REPAIRED_KEYS_MAX: usize = 4_096;

impl NftablesDataplane {
    /// Repairs the elements and chains that external changes touched. Returns the number of elements and chains that
    /// were checked.
    pub(super) fn repair_changes(
        &mut self,
        plan: &Plan,
        changes: &[ExternalChange],
    ) -> Result<usize, DataplaneError> {
        let count = if is_extent_unknown(changes) || !self.is_in_sync {
            self.read_back(plan)?
        } else {
            self.repair_reported(plan, changes)?
        };
        for change in changes {
            if let ExternalChange::Transaction(state) = change {
                self.ledger.record_external(*state);
                self.require_verification();
            }
        }
        Ok(count)
    }

    fn repair_reported(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        let mut count = 0;
        if changes.contains(&ExternalChange::Rules) {
            count += self.repair_chains()?;
        }
        for (map_id, keys) in keys_by_map(changes) {
            if keys.len() > REPAIRED_KEYS_MAX || is_read_back(map_id) {
                let (_, differing) = self.verify(plan, map_id)?;
                count += differing;
                continue;
            }
            for key in keys {
                if !self.repair_element(plan, map_id, key) {
                    return self.synchronize(plan).map(|applied| applied.elements);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// Compares all chains with the desired ones and repairs them. Returns the number of differences.
    pub(super) fn repair_chains(&mut self) -> Result<usize, DataplaneError> {
        let desired = self.desired_chains();
        let mut repair = Repair::default();
        repair.compare_chains(desired, snapshot::read_chains(&mut self.nftables, &self.table)?);
        let mut batch = Batch::new(&self.table, None);
        for chain in &repair.flushed {
            batch.flush_chain(chain, NO_OWNER);
        }
        write_chains(&mut batch, &repair.chains);
        self.commit(batch)?;
        if let Err(error) = self.delete_chains(&repair.stale_chains) {
            tracing::debug!(%error, "stale chains not deleted before the next repair");
        }
        Ok(repair.chains.len() + repair.stale_chains.len())
    }

    /// Returns all chains that the table has to contain.
    pub(super) fn desired_chains(&self) -> Vec<(Chain, Vec<Rule>)> {
        let mut desired = self.chains.clone();
        let codes: Vec<u32> = self.codes.applied().collect();
        desired.extend(self.codes.chains_of(codes.iter()));
        desired
    }

    /// Restores an element, or deletes a foreign one. Returns true if that succeeded.
    fn repair_element(&mut self, plan: &Plan, map_id: MapId, key: MapBytes) -> bool {
        let desired = self.desired(plan, map_id, &key);
        let gone = MapElement::key(map_id, key);
        let attempts: [&[(Change, &MapElement)]; 2] = match &desired {
            Some(element) => [
                &[(Change::Add, element)],
                &[(Change::Delete, &gone), (Change::Add, element)],
            ],
            None => [&[(Change::Delete, &gone)], &[]],
        };
        for attempt in attempts {
            let mut batch = Batch::new(&self.table, None);
            for (change, element) in attempt {
                write_elements(&mut batch, *change, std::slice::from_ref(*element), NO_OWNER);
            }
            match self.commit(batch) {
                Ok(()) => return true,
                Err(error) => tracing::debug!(%error, "reported element changed again"),
            }
        }
        // An undesired element that cannot be deleted usually no longer exists.
        desired.is_none()
    }

    /// Returns the desired element of a key.
    fn desired(&self, plan: &Plan, map_id: MapId, key: &MapBytes) -> Option<MapElement> {
        let has_key = |element: &MapElement| element.map_id == map_id && element.key == *key;
        let (map, family) = match map_id {
            MapId::Verdicts => {
                let code = u32::from_ne_bytes(key.as_slice().try_into().ok()?);
                return self.codes.element(code).filter(|_| self.codes.is_applied(code));
            }
            MapId::Masqueraded => return base_ruleset::masqueraded().into_iter().find(has_key),
            MapId::Map(map, family) => (map, family),
        };
        match map {
            Map::ClusterIps | Map::Hairpin => {
                let (address, _) = split_address(key.as_slice(), family)?;
                let shared = match map {
                    Map::ClusterIps => SharedElement::ClusterIp(address),
                    _ => SharedElement::LocalEndpoint(address),
                };
                Some(shared.element()).filter(|element| self.applied.has_shared(shared) && has_key(element))
            }
            Map::NodePortAddresses => self.ranges.iter().find(|element| has_key(element)).cloned(),
            _ => {
                let (service, ports) = self.owner(plan, map, family, key)?;
                let mut elements = Vec::new();
                for port in ports.iter().filter(|port| port.family() == family) {
                    port.append_elements(map, &comment(&service, port), &mut elements);
                }
                elements.into_iter().find(has_key)
            }
        }
    }

    /// Returns the Service that owns the element of a key. The key begins with a frontend.
    fn owner(
        &self,
        plan: &Plan,
        map: Map,
        family: Family,
        key: &MapBytes,
    ) -> Option<(api::object::ObjectKey, &[Port])> {
        let (address, rest) = match map {
            Map::NodePorts | Map::ServiceOfNodePort => (None, key.as_slice()),
            _ => {
                let (address, rest) = split_address(key.as_slice(), family)?;
                (Some(address).filter(|address| !address.is_unspecified()), rest)
            }
        };
        let number = *rest.first()?;
        let protocol = match i32::from(number & !RANGE_BIT) {
            libc::IPPROTO_TCP => Protocol::Tcp,
            libc::IPPROTO_UDP => Protocol::Udp,
            libc::IPPROTO_SCTP => Protocol::Sctp,
            _ => return None,
        };
        let port = u16::from_be_bytes(*rest.get(4..)?.first_chunk()?);
        let (plan, _) = match address.filter(|_| number & RANGE_BIT != 0) {
            Some(address) => plan.range_frontend(address, protocol, port)?,
            None => plan.frontend(family, address, protocol, port)?,
        };
        let service = plan.key.service.clone();
        let ports = self.applied.ports(&service);
        Some((service, ports))
    }
}

/// Reports that the keys of a map do not identify their owner: they are ranges, or addresses without a port.
fn is_read_back(map_id: MapId) -> bool {
    matches!(
        map_id,
        MapId::Map(
            Map::SourceRanges
                | Map::PortRanges
                | Map::ServiceOfRange
                | Map::RangeSources
                | Map::Pings
                | Map::PingSources
                | Map::ServiceCidrs
                | Map::Pods,
            _
        )
    )
}

/// Reports that the set of changed elements is unknown. Changes of foreign sets are irrelevant.
fn is_extent_unknown(changes: &[ExternalChange]) -> bool {
    changes.iter().any(|change| match change {
        ExternalChange::Everything => true,
        ExternalChange::Set { set } => MapId::from_name(set).is_some(),
        ExternalChange::Elements { .. } | ExternalChange::Rules | ExternalChange::Transaction(_) => false,
    })
}

/// Returns the changed keys of each map of the table, without duplicates.
fn keys_by_map(changes: &[ExternalChange]) -> BTreeMap<MapId, BTreeSet<MapBytes>> {
    let mut all: BTreeMap<MapId, BTreeSet<MapBytes>> = BTreeMap::new();
    for change in changes {
        if let ExternalChange::Elements { set, keys } = change
            && let Some(map_id) = MapId::from_name(set).filter(|map_id| !map_id.is_dynamic())
        {
            let keys = keys.iter().filter_map(|key| MapBytes::from_slice(key));
            all.entry(map_id).or_default().extend(keys);
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
