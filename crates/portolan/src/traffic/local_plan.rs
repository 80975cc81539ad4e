//! The plan of this node, from the objects of the cluster and the settings of the proxy that runs here.

use std::net::IpAddr;

use explain::WorldBuilder;
use netlink::route::{Connection, RouteError};
use plan::Plan;
use proxy::{Config, NodeObjects, NodePortSelection, plan_of_node};

use crate::flags::values::hostname;
use crate::node_observation::{Cluster, Program, RunningProxy, running_proxies};

/// Settings of the proxy that runs on this node.
#[derive(Clone, Debug)]
pub(crate) struct LocalProxy {
    config: Config,
    /// Mode, or "" if no proxy is found.
    pub mode: String,
}

impl LocalProxy {
    /// Finds the proxy. Without one, or if its settings are unknown, node ports are those of all addresses.
    pub(crate) fn find() -> Self {
        let proxies = running_proxies();
        let settings = proxies.iter().find_map(|proxy| {
            let configuration = proxy.configuration.as_ref()?;
            let (_, config) = proxy::configuration::validate(configuration, &hostname()).ok()?;
            Some(config)
        });
        let config = settings.unwrap_or_else(|| Config {
            node_port_addresses: NodePortSelection::All,
            ..Config::default()
        });
        let mode = proxies.iter().find_map(mode).unwrap_or_default();
        Self { config, mode }
    }

    /// Computes the plan of the node with this name.
    ///
    /// # Errors
    ///
    /// [`RouteError`] if the addresses of this node cannot be read.
    pub(crate) fn plan(&self, builder: &WorldBuilder, node_name: &str) -> Result<Plan, RouteError> {
        let cluster = Cluster::read(builder, None);
        let objects = NodeObjects {
            node: cluster.node(node_name).cloned(),
            services: cluster.services,
            slices: cluster.slices,
            service_cidrs: cluster.service_cidrs,
            own_addresses: own_addresses()?,
        };
        let config = Config {
            node_name: node_name.to_owned(),
            ..self.config.clone()
        };
        Ok(plan_of_node(&config, &objects))
    }
}

/// Returns the mode of a proxy that implements Services by connection tracking.
fn mode(proxy: &RunningProxy) -> Option<String> {
    let is_known = matches!(proxy.program, Program::Portolan | Program::KubeProxy);
    proxy.observed.mode.clone().filter(|_| is_known)
}

/// Returns the addresses of this network namespace.
fn own_addresses() -> Result<Vec<IpAddr>, RouteError> {
    let addresses = Connection::open()?.addresses()?;
    let mut addresses: Vec<IpAddr> = addresses.iter().map(|address| address.network.addr()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}
