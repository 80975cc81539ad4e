//! The canonical form of subsets (EPC-08): equal contents have equal forms.

use std::collections::{BTreeMap, HashMap};

use api::object::{EndpointAddress, EndpointSubset, SubsetPort};

/// The addresses that serve a port, by their index in the list of all, with their readiness.
type Servers = BTreeMap<usize, bool>;

/// Regroups subsets so that each pair of address and port appears once, and ports with the same addresses
/// share a subset. An address that is both ready and not ready for a port counts as not ready. Subsets,
/// addresses and ports are sorted.
pub(crate) fn repack(subsets: Vec<EndpointSubset>) -> Vec<EndpointSubset> {
    let mut addresses: Vec<EndpointAddress> = Vec::new();
    let mut indices: HashMap<(String, String), usize> = HashMap::new();
    // `None` stands for addresses without ports.
    let mut by_port: BTreeMap<Option<SubsetPort>, Servers> = BTreeMap::new();
    for subset in subsets {
        let ports: Vec<Option<SubsetPort>> = if subset.ports.is_empty() {
            vec![None]
        } else {
            subset.ports.into_iter().map(Some).collect()
        };
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            let index = *indices.entry(identity(&address)).or_insert_with(|| {
                addresses.push(address);
                addresses.len() - 1
            });
            for port in &ports {
                let servers = by_port.entry(port.clone()).or_default();
                servers
                    .entry(index)
                    .and_modify(|known| *known &= ready)
                    .or_insert(ready);
            }
        }
    }
    let mut by_servers: BTreeMap<Servers, Vec<SubsetPort>> = BTreeMap::new();
    for (port, servers) in by_port {
        by_servers.entry(servers).or_default().extend(port);
    }
    let mut packed: Vec<EndpointSubset> = by_servers
        .into_iter()
        .map(|(servers, ports)| subset_of(&servers, ports, &addresses))
        .collect();
    // Each port is in one subset, so the ports order the subsets.
    packed.sort_by(|a, b| a.ports.cmp(&b.ports));
    packed
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
fn identity(address: &EndpointAddress) -> (String, String) {
    let uid = address.target_ref.as_ref().map(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

#[cfg(test)]
mod tests;
