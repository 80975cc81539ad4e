//! Observation of nftables tables and chains.

use explain::observation::{Chain, Table};
use netlink::nftables::{Inventory, InventoryChain, Nftables};

use super::gap::ReadFailure;

/// Maximum number of chains of all tables: kube-proxy has several for each Service.
const CHAINS_MAX: usize = 200_000;
/// Maximum number of chains of one table in the observation. Base chains come first, then those with the Services of
/// iptables.
const CHAINS_OF_TABLE_MAX: usize = 500;
/// Chain of kube-proxy and of Portolan's iptables mode (IPT-02).
pub(super) const SERVICES_CHAIN: &str = "KUBE-SERVICES";

/// Reads the tables of all families.
///
/// # Errors
///
/// A [`ReadFailure`] if the kernel refuses, or has no nftables.
pub(super) fn read() -> Result<Inventory, ReadFailure> {
    let mut nftables = Nftables::open()?;
    Ok(nftables.inventory(CHAINS_MAX)?)
}

/// Returns the tables, and true if chains are left out.
pub(super) fn observed_tables(inventory: &Inventory) -> (Vec<Table>, bool) {
    let mut is_truncated = inventory.is_truncated;
    let tables = inventory.tables.iter().map(|table| {
        let mut chains: Vec<Chain> = table.chains.iter().map(observed_chain).collect();
        is_truncated |= chains.len() > CHAINS_OF_TABLE_MAX;
        // The sort is stable, so the order of the table stays.
        chains.sort_by_key(|chain| (chain.hook.is_none(), chain.name != SERVICES_CHAIN));
        chains.truncate(CHAINS_OF_TABLE_MAX);
        Table {
            family: table.family.clone(),
            name: table.name.clone(),
            dormant: table.is_dormant,
            chains: Some(chains),
            ..Table::default()
        }
    });
    (tables.collect(), is_truncated)
}

fn observed_chain(chain: &InventoryChain) -> Chain {
    let policy = |accepts: bool| if accepts { "accept" } else { "drop" };
    Chain {
        name: chain.name.clone(),
        kind: chain.kind.clone(),
        hook: chain.hook.map(str::to_owned),
        priority: chain.priority,
        policy: chain.accepts.map(|accepts| policy(accepts).to_owned()),
        rules: Some(chain.rules),
    }
}

#[cfg(test)]
mod tests;
