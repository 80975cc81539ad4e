//! The canonical form of subsets (EPC-08): equal contents have equal forms.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::object::{EndpointAddress, EndpointSubset, SubsetPort};

/// Addresses by their index in the list of all, with their readiness.
type Servers = BTreeMap<usize, bool>;

/// Regroups subsets so that each pair of address and port appears once, and ports with the same addresses
/// share a subset. An address that is both ready and not ready for a port counts as not ready. Subsets,
/// addresses and ports are sorted.
///
/// The pairs are not listed one by one: an object of a megabyte can have hundreds of millions.
pub(crate) fn repack(subsets: Vec<EndpointSubset>) -> Vec<EndpointSubset> {
    let mut addresses: Vec<EndpointAddress> = Vec::new();
    let mut indices: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    // The addresses of each subset that has some.
    let mut members: Vec<Servers> = Vec::new();
    // The subsets of a port, by their index in `members`. `None` stands for addresses without ports.
    let mut by_port: BTreeMap<Option<SubsetPort>, BTreeSet<usize>> = BTreeMap::new();
    for subset in subsets {
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        let mut servers = Servers::new();
        for (address, ready) in ready.chain(not_ready) {
            let index = *indices.entry(identity(&address)).or_insert_with(|| {
                addresses.push(address);
                addresses.len() - 1
            });
            add(&mut servers, index, ready);
        }
        if servers.is_empty() {
            continue;
        }
        if subset.ports.is_empty() {
            by_port.entry(None).or_default().insert(members.len());
        }
        for port in subset.ports {
            by_port.entry(Some(port)).or_default().insert(members.len());
        }
        members.push(servers);
    }
    let mut packed: Vec<EndpointSubset> = ports_by_addresses(by_port, &members)
        .into_iter()
        .map(|(servers, ports)| subset_of(&servers, ports, &addresses))
        .collect();
    // Each port is in one subset, so the ports order the subsets.
    packed.sort_by(|a, b| a.ports.cmp(&b.ports));
    packed
}

/// Returns the ports by their addresses.
fn ports_by_addresses(
    by_port: BTreeMap<Option<SubsetPort>, BTreeSet<usize>>,
    members: &[Servers],
) -> BTreeMap<Servers, Vec<SubsetPort>> {
    // First by the subsets, which are far fewer than the addresses.
    let mut by_subsets: BTreeMap<BTreeSet<usize>, Vec<SubsetPort>> = BTreeMap::new();
    for (port, subsets) in by_port {
        by_subsets.entry(subsets).or_default().extend(port);
    }
    let mut by_servers: BTreeMap<Servers, Vec<SubsetPort>> = BTreeMap::new();
    for (subsets, ports) in by_subsets {
        let mut servers = Servers::new();
        for (index, ready) in subsets.iter().filter_map(|subset| members.get(*subset)).flatten() {
            add(&mut servers, *index, *ready);
        }
        by_servers.entry(servers).or_default().extend(ports);
    }
    by_servers
}

/// Adds an address. An address that is added several times is ready only if it is ready each time.
fn add(servers: &mut Servers, index: usize, ready: bool) {
    servers
        .entry(index)
        .and_modify(|known| *known &= ready)
        .or_insert(ready);
}

fn subset_of(servers: &Servers, mut ports: Vec<SubsetPort>, addresses: &[EndpointAddress]) -> EndpointSubset {
    let of = |desired: bool| {
        let chosen = servers.iter().filter(|(_, ready)| **ready == desired);
        let mut chosen: Vec<EndpointAddress> = chosen
            .filter_map(|(index, _)| addresses.get(*index).cloned())
            .collect();
        chosen.sort_by_cached_key(identity);
        chosen
    };
    ports.sort_unstable();
    EndpointSubset {
        addresses: of(true),
        not_ready_addresses: of(false),
        ports,
    }
}

/// Returns the identity of an address: the IP and the UID of its target.
fn identity(address: &EndpointAddress) -> (Arc<str>, Arc<str>) {
    let uid = address.target_ref.as_ref().map(|target| Arc::clone(&target.uid));
    (Arc::clone(&address.ip), uid.unwrap_or_default())
}

#[cfg(test)]
mod tests;
