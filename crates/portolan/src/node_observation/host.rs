//! Single facts about this host, for commands that need no whole observation.

use std::net::IpAddr;

use explain::observation::PodName;
use netlink::route::{Connection, NetworkNamespace};

use super::cluster::Cluster;
use super::gap::ReadFailure;
use super::{pods, processes, proxies};
use crate::flags::values::hostname;

/// Returns the network namespace of a Pod on this host; `None` if the Pod is not here.
///
/// # Errors
///
/// A [`ReadFailure`] if processes or their namespaces cannot be read.
pub(crate) fn pod_namespace(
    cluster: &Cluster,
    node_name: &str,
    pod: &PodName,
) -> Result<Option<NetworkNamespace>, ReadFailure> {
    let own = processes::own_namespace()?;
    let found = pods::find(&processes::read_all()?, own, &cluster.pods, node_name)?;
    let mut namespaces = found.found.into_iter();
    Ok(namespaces
        .find(|found| found.pod == *pod)
        .map(|found| found.namespace))
}

/// Returns the mode of the node proxy that runs here; `None` if it is unknown.
pub(crate) fn proxy_mode() -> Option<String> {
    let own = processes::own_namespace().ok()?;
    let processes = processes::read_all().ok()?;
    let proxies = proxies::read(&processes, own, &hostname());
    proxies.into_iter().find_map(|proxy| proxy.observed.mode)
}

/// Returns the addresses of this host.
///
/// # Errors
///
/// A [`ReadFailure`] if the addresses cannot be read.
pub(crate) fn own_addresses() -> Result<Vec<IpAddr>, ReadFailure> {
    let addresses = Connection::open()?.addresses()?;
    Ok(addresses.iter().map(|address| address.network.addr()).collect())
}
