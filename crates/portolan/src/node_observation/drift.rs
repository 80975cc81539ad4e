//! Drift of Portolan's own table: differences from the plan that the objects require.

use std::net::IpAddr;
use std::time::Duration;

use dataplane::nftables::{Drift, NftablesDataplane, Options};
use explain::observation::Table;
use proxy::{Config, NodeObjects, plan_of_node};

use super::cluster::Cluster;
use super::gap::ReadFailure;
use super::proxies::{Program, RunningProxy};

/// Modes whose table is compared.
const MODES: [&str; 2] = ["nftables", "ebpf"];
/// Time in which the proxy applies changes that happen between the lists of objects and the read of the table.
const APPLY_TIMEOUT: Duration = Duration::from_millis(300);

/// Returns the settings of the proxy that writes the table; `None` if there is not exactly one, or if they are unknown.
pub(super) fn settings(proxies: &[RunningProxy], hostname: &str) -> Option<Config> {
    let mut writers = proxies.iter().filter(|proxy| proxy.program == Program::Portolan);
    let (writer, other) = (writers.next()?, writers.next());
    let configuration = writer.configuration.as_ref()?;
    let is_compared = writer
        .observed
        .mode
        .as_deref()
        .is_some_and(|mode| MODES.contains(&mode));
    let (_, config) = proxy::configuration::validate(configuration, hostname).ok()?;
    (other.is_none() && is_compared).then_some(config)
}

/// Compares the table with the plan of the objects. A difference counts if it is present again with objects that
/// `read_again` reads later. Other differences are changes that the proxy was about to apply. `None` if there is no
/// table.
///
/// # Errors
///
/// A [`ReadFailure`] if the table cannot be read.
pub(super) fn read(
    config: &Config,
    cluster: &Cluster,
    addresses: &[IpAddr],
    read_again: impl FnOnce() -> Option<Cluster>,
) -> Result<Option<Drift>, ReadFailure> {
    let Some(first) = compare(config, cluster, addresses)? else {
        return Ok(None);
    };
    if first.is_empty() {
        return Ok(Some(first));
    }
    std::thread::sleep(APPLY_TIMEOUT);
    let Some(later) = read_again() else {
        return Ok(None);
    };
    let second = compare(config, &later, addresses)?;
    Ok(second.map(|second| first.common_with(&second)))
}

/// Writes the differences into the observation of the table.
pub(super) fn set(tables: &mut [Table], drift: &Drift) {
    let own = Options::default().table;
    let mut tables = tables.iter_mut();
    if let Some(table) = tables.find(|table| table.family == "inet" && table.name == own) {
        table.missing = Some(drift.missing() as u64);
        table.changed = Some(drift.changed() as u64);
        table.unexpected = Some(drift.unexpected() as u64);
    }
}

fn compare(config: &Config, cluster: &Cluster, addresses: &[IpAddr]) -> Result<Option<Drift>, ReadFailure> {
    let objects = NodeObjects {
        services: cluster.services.clone(),
        slices: cluster.slices.clone(),
        // A proxy that runs under another name uses the Node with that name, or none.
        node: cluster.node(&config.node_name).cloned(),
        service_cidrs: cluster.service_cidrs.clone(),
        own_addresses: addresses.to_vec(),
    };
    let plan = plan_of_node(config, &objects);
    let failed = |error: dataplane::DataplaneError| match error {
        dataplane::DataplaneError::NotPermitted => ReadFailure::NotPermitted,
        error => ReadFailure::Other(error.to_string()),
    };
    let mut dataplane = NftablesDataplane::open(Options::default()).map_err(failed)?;
    dataplane.drift(&plan).map_err(failed)
}

#[cfg(test)]
mod tests;
